"""Learning: slopes by differences, that it learns, goes on, exports, and flies what it learned."""

import json

import numpy as np
import pytest

from quadsim import InputError
from quadsim.gym.policy import Policy
from quadsim.gym.ppo import Ppo, PpoParams
from quadsim.sim.scenario import load_scenario

SMALL = PpoParams(width=8)


class Steer:
    """64 points on a line that are worth most in the middle; an episode is 20 steps."""

    num_envs = 64

    def __init__(self):
        self._rng = np.random.default_rng(1)
        self._x, self._age = self._rng.normal(size=(64, 1)), np.arange(64) % 20

    def seen(self):
        return np.hstack([3.0 + self._x, self._x * 0.0]).astype(
            np.float32
        )  # far from 0; a constant

    def step(self, actions):
        over = self._age >= 20
        self._x += 0.2 * actions.astype(float)
        self._x[over], self._age[over] = self._rng.normal(size=(over.sum(), 1)), -1
        self._age += 1
        reward = np.where(over, 0.0, -np.abs(self._x[:, 0]))
        return self.seen(), reward, np.zeros(64, bool), self._age >= 20, {}


def test_slopes_are_those_of_differences():
    """Central differences of a quadratic cost, in the 32-bit numbers of the networks."""
    ppo = Ppo(3, 2, SMALL, seed=1)
    rng = np.random.default_rng(2)
    x, wanted = (rng.normal(size=(50, n)).astype(np.float32) for n in (3, 2))

    def cost():
        return 0.5 * np.square(ppo._forward("actor", x)[-1] - wanted, dtype=float).sum()

    layers = ppo._forward("actor", x)
    slopes = ppo._backward("actor", layers, layers[-1] - wanted)
    for name, slope in slopes.items():
        for place in [(0,) * slope.ndim, tuple(n - 1 for n in slope.shape)]:
            weights, found = ppo.state[name], []
            for step in (1e-2, -1e-2):
                weights[place] += step
                found.append(cost())
                weights[place] -= step
            assert slope[place] == pytest.approx((found[0] - found[1]) / 2e-2, rel=2e-3, abs=2e-3)


def test_it_learns_and_the_same_seed_learns_the_same():
    def learned(seed):
        envs, ppo = Steer(), Ppo(2, 1, SMALL, seed)
        seen, rewards = envs.seen(), []
        for k in range(60):
            seen, figures = ppo.learn(envs, seen, k / 60.0)
            rewards.append(figures["reward"])
        return rewards, ppo

    rewards, ppo = learned(1)
    # from about 1 off by chance: within 20 steps of 0.2 it reaches the middle, half of them later
    assert np.mean(rewards[:3]) < -0.7
    assert np.mean(rewards[-3:]) > -0.4
    actions = ppo.act(np.array([[5.0, 0.0], [1.0, 0.0]], np.float32))
    assert actions[0, 0] < -0.5 < 0.5 < actions[1, 0]
    assert learned(1)[0] == rewards
    assert learned(2)[0] != rewards


def test_a_state_of_other_networks_is_refused():
    with pytest.raises(InputError, match="not of the same environment and networks"):
        Ppo(3, 2, SMALL, 1).load(Ppo(4, 2, SMALL, 1).state)


@pytest.fixture(scope="module")
def training():
    pytest.importorskip("gymnasium")
    from quadsim.gym.training import Training, TrainingParams

    found = Training(TrainingParams("hover", envs=16, ppo=PpoParams(width=8, rollout=4)))
    for figures in found.run(128):
        assert np.isfinite(list(figures.values())).all()
    return found


@pytest.mark.many
def test_a_training_that_cannot_be_saved_keeps_what_was_saved(training, tmp_path):
    """A full disk ended it with a traceback, and the file of before was cut."""
    file = tmp_path / "training.npz"
    training.save(file)
    content = file.read_bytes()
    (tmp_path / "training.npz.part").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        training.save(file)
    assert file.read_bytes() == content


def test_a_training_goes_on_from_its_file(training, tmp_path):
    from quadsim.gym.training import Training

    training.save(tmp_path / "training.npz")
    again = Training.load(tmp_path / "training.npz")
    assert again.params == training.params
    assert again.steps == training.steps == 128
    for name, value in training.ppo.state.items():
        np.testing.assert_array_equal(again.ppo.state[name], value)
    (tmp_path / "training.npz").write_bytes(b"none")
    with pytest.raises(InputError, match="holds no training"):
        Training.load(tmp_path / "training.npz")


@pytest.mark.many
def test_the_file_gives_the_actions_of_the_policy(training, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    training.export(tmp_path / "policy.onnx")
    session = runtime.InferenceSession(str(tmp_path / "policy.onnx"))
    seen = np.random.default_rng(1).normal(0.0, 3.0, (100, 28)).astype(np.float32)
    found = session.run(None, {"observation": seen})[0]
    np.testing.assert_allclose(found, training.ppo.act(seen), atol=2e-6)
    told = json.loads(session.get_modelmeta().custom_metadata_map["quadsim"])
    assert told == {"task": "hover", "observation": "truth", "action": "rates", "period_s": 0.02}


@pytest.mark.many
def test_the_command_trains_goes_on_and_flies(tmp_path, monkeypatch, capsys):
    for package in ("gymnasium", "onnx", "onnxruntime"):
        pytest.importorskip(package)
    from quadsim.cli.main import main

    def run(*arguments, task="reach"):
        with pytest.raises(SystemExit) as caught:
            main(["train", task, *arguments])
        return caught.value.code, capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    small = ("--envs", "8", "--learning", "rollout=4")
    assert run("--steps", "64", *small, "--flights", "1", "--output", "run")[0] == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 64
    assert len(summary["flights"]) == 1
    assert run("--steps", "96", "--resume", "run", "--flights", "0")[0] == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 96
    code, told = run("--resume", "run", "--action", "velocity")
    assert code == 2
    assert "--action: --resume goes on as it was begun" in told
    (tmp_path / "file").write_text("")
    code, told = run("--steps", "64", *small, "--output", "file/run")
    assert code == 2
    assert "file/run: cannot be written (Not a directory)" in told
    code, told = run("--learning", "speed=2")
    assert code == 2
    assert "speed" in told
    own = "from quadsim.gym.tasks import Reach\n\n\nclass Near(Reach):\n    episode_s = 1.0\n"
    own += "    training_steps = 64\n    learning = {'width': 8}\n"
    (tmp_path / "nearby.py").write_text(own)
    arguments = (*small, "--flights", "1", "--output", "own")
    assert run(*arguments, task="nearby:Near")[0] == 1
    summary = json.loads((tmp_path / "own" / "summary.json").read_text())
    assert summary["steps"] == 64
    assert summary["flights"][0]["flown_s"] == pytest.approx(1.0)
    assert np.load(tmp_path / "own" / "training.npz")["actor.w0"].shape[1] == 8
    code, told = run(*arguments[:-1], "none", task="nearby:Far")
    assert code == 2
    assert "task nearby:Far: there is no Far in" in told
    with pytest.raises(InputError, match="its task is nearby:Near; give it"):
        Policy(load_scenario("hover"), str(tmp_path / "own" / "policy.onnx"), "controller")

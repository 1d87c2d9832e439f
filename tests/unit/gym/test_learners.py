"""Learners of others run unchanged: stable-baselines3, and loops in the manner of CleanRL."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import quadsim.gym  # noqa: E402

pytestmark = pytest.mark.many

assert quadsim.gym.NAMES


def test_a_loop_of_cleanrl_runs_with_the_wrappers_of_gymnasium():
    """As of its ppo_continuous_action.py, but that chance acts; wrappers of vector environments."""
    wrappers = pytest.importorskip("gymnasium.wrappers.vector")
    envs = gymnasium.make_vec("quadsim/Hover-v0", num_envs=4, units=2, threads=1)
    envs = wrappers.RecordEpisodeStatistics(envs)
    envs = wrappers.ClipAction(envs)
    envs = wrappers.NormalizeObservation(envs)
    envs = wrappers.TransformObservation(envs, lambda seen: np.clip(seen, -10.0, 10.0))
    envs = wrappers.NormalizeReward(envs, gamma=0.99)
    assert isinstance(envs.single_action_space, gymnasium.spaces.Box)
    rng = np.random.default_rng(1)
    seen, _ = envs.reset(seed=1)
    lengths = []
    for _ in range(400):
        assert np.isfinite(seen).all()
        action = rng.normal(size=envs.action_space.shape)
        seen, reward, ends, late, info = envs.step(action)
        assert reward.shape == ends.shape == late.shape == (4,)
        if "episode" in info:
            lengths += info["episode"]["l"][info["_episode"]].tolist()
    assert lengths
    assert max(lengths) <= 500


@pytest.mark.filterwarnings("ignore")  # of torch, and that there are no pictures
def test_stable_baselines3_learns_and_keeps_its_policy(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    env_util = pytest.importorskip("stable_baselines3.common.env_util")
    kwargs = {"units": 2, "threads": 1}
    envs = env_util.make_vec_env("quadsim/Reach-v0", 2, seed=1, env_kwargs=kwargs)
    model = sb3.PPO("MlpPolicy", envs, n_steps=128, batch_size=64, seed=1, device="cpu")
    model.learn(512)
    model.save(tmp_path / "model.zip")
    seen = envs.reset()
    action, _ = sb3.PPO.load(tmp_path / "model.zip", device="cpu").predict(seen)
    assert action.shape == (2, 4)
    assert model.num_timesteps == 512

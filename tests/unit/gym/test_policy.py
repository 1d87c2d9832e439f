"""Trained policies in flights: as controllers and planners, and what refuses them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quadsim import InputError, PartError, Simulation
from quadsim.gym.interface import Limits, action_limits
from quadsim.gym.tasks import Hover, Race
from quadsim.gym.view import view_of_one
from quadsim.hil.rehearsal.flight import RehearsalFlight
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.lab.campaign.flying import Terms, decisive_versions, fly_run, prepare_campaign
from quadsim.lab.campaign.plan import load_campaign
from quadsim.sim.flight_view import Attitude, Rates
from quadsim.sim.library import OtherFileError
from quadsim.sim.scenario import load_scenario
from quadsim.sim.worlds import SEEN

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

#: Policies are called in Python, some hundred times a flight.
pytestmark = pytest.mark.many

GRAVITY = 9.80665


def write_linear(file: Path, gains, bias, told) -> Path:
    """An ONNX file of the policy clip(x gains + bias, -1, 1)."""
    h, kind = onnx.helper, onnx.TensorProto.FLOAT
    values = {"k": gains, "b": bias, "least": -1.0, "most": 1.0}
    graph = h.make_graph(
        [
            h.make_node("Gemm", ["x", "k", "b"], ["y"]),
            h.make_node("Clip", ["y", "least", "most"], ["z"]),
        ],
        "linear",
        [h.make_tensor_value_info("x", kind, ["n", len(gains)])],
        [h.make_tensor_value_info("z", kind, ["n", len(bias)])],
        [onnx.numpy_helper.from_array(np.asarray(v, np.float32), n) for n, v in values.items()],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    if told:
        h.set_model_props(model, {"quadsim": json.dumps(told)})
    onnx.save(model, str(file))
    return file


def gains_of(action: str) -> tuple[np.ndarray, np.ndarray]:
    """A law that hovers as gains on the observation ``truth``: 28 numbers."""
    low, high = action_limits(action, load_scenario("hover").vehicle, Limits())
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    gains, bias = np.zeros((28, 4)), -middle / half
    a_B = np.zeros((28, 3))  # wanted acceleration: 2 / s^2 of the way, 2.5 / s of the velocity
    a_B[18:21], a_B[21:24] = np.eye(3) * 5.0 * 2.0, np.eye(3) * 5.0 * -2.5
    if action == "velocity":
        gains[:3, :3] = np.eye(3) * 5.0 / half[:3]
        return gains, bias
    pitch, roll = a_B[:, 0] / GRAVITY, -a_B[:, 1] / GRAVITY
    if action == "attitude":
        gains[:, 0], gains[:, 1] = roll / half[0], pitch / half[1]
    else:  # turn towards it: sin(roll) is R32, -sin(pitch) is R31
        is_roll, is_pitch = np.zeros(28), np.zeros(28)
        is_roll[6 + 7], is_pitch[6 + 6] = 1.0, -1.0
        gains[:, 0] = 8.0 * (roll - is_roll) / half[0]
        gains[:, 1] = 8.0 * (pitch - is_pitch) / half[1]
    gains[:, 3], bias[3] = a_B[:, 2] / half[3], (GRAVITY - middle[3]) / half[3]
    return gains, bias


@pytest.fixture
def linear(tmp_path):
    """Writes a policy of an action."""

    def write(action, **told):
        told = {"task": "hover", "observation": "truth", "action": action, **told}
        return str(write_linear(tmp_path / f"{action}.onnx", *gains_of(action), told))

    return write


@pytest.mark.parametrize("action", ["attitude", "rates"])
def test_a_policy_flies_a_mission_and_leaves_take_off_and_landing_to_us(linear, action):
    simulation = Simulation("hover", seed=2, controller=linear(action))
    flight = simulation.run()
    assert simulation.mode == "disarmed"
    height_m = flight.truth.p_W[:, 2]
    assert 0.8 < np.max(height_m) < 1.5
    assert height_m[-1] < 0.4


def test_a_policy_recovers_from_any_attitude_on_an_estimate_that_is_drawn(linear):
    start = {"p_W": [0.0, 0.0, 8.0], "v_W": [1.0, 0.0, -1.0], "w_B": [1.0, -1.0, 0.5]}
    for seed in range(3):
        q_WB = np.random.default_rng(seed).normal(size=4)
        simulation = Simulation(
            "hover", seed=seed, duration_s=12.0, start_mission=False,
            changes={"autopilot.flight.failsafe.off_course_m": 100.0},
            parts={"controller": {"part": linear("attitude"), "goal": "task"}},
            start={**start, "q_WB": q_WB / np.linalg.norm(q_WB), "estimate": "drawn"},
        )  # fmt: skip
        simulation.step(5000)
        assert np.linalg.norm(simulation.state.p_W - [0.0, 0.0, 5.0]) < 1.5  # a fix's deviation
        assert np.linalg.norm(simulation.odometry.p_W - [0.0, 0.0, 5.0]) < 0.2


@pytest.mark.parametrize("action", ["attitude", "rates"])
def test_a_policy_sees_and_does_in_a_flight_what_it_does_in_its_environment(linear, action):
    pytest.importorskip("gymnasium")
    from quadsim.gym import VectorEnv

    class Fixed(Hover):
        def begin(self, start):
            start.motions["p_W"] = [1.0, -1.0, 6.0]
            start.motions["v_W"] = [0.5, 0.5, 0.0]

    env = VectorEnv(Fixed(), 1, action=action, units=1, threads=1)
    observation, _ = env.reset(seed=1)
    simulation = Simulation(
        "hover", fly_on="truth", start_mission=False,
        parts={"controller": {"part": linear(action), "goal": "task"}},
        start={"p_W": [1.0, -1.0, 6.0], "v_W": [0.5, 0.5, 0.0]},
    )  # fmt: skip
    gains, bias = gains_of(action)
    for _ in range(100):
        observation = env.step(np.clip(observation @ gains + bias, -1.0, 1.0))[0]
        simulation.step(10)
        # of one IMU sample apart in when a command is heard: 2 ms at some m/s^2 and m/s
        p_W = env.worlds.seen["true"]["p_W"][0]
        np.testing.assert_allclose(simulation.state.p_W, p_W, atol=0.02)


def test_a_policy_of_velocities_is_a_planner(linear):
    """What cannot fly so is refused before it flies."""
    with pytest.raises(InputError, match="fly it as planner"):
        Simulation("hover", controller=linear("velocity"))
    with pytest.raises(InputError, match="fly it as controller"):
        Simulation("hover", parts={"planner": linear("rates")})
    flight = Simulation("hover", duration_s=12.0, parts={"planner": linear("velocity")})
    flight.run(until=lambda now: now.time_s > 10.0)
    assert abs(flight.state.p_W[2] - 1.0) < 0.3


@pytest.mark.parametrize(("taken", "given"), [(27, 4), (28, 3)])
def test_a_network_of_other_numbers_is_refused_before_it_flies(tmp_path, taken, given):
    told = {"task": "hover", "observation": "truth", "action": "rates"}
    file = write_linear(tmp_path / "p.onnx", np.zeros((taken, given)), np.zeros(given), told)
    with pytest.raises(InputError, match=r"needed: \(1, 28\) observations to \(1, 4\) actions"):
        Simulation("hover", controller=str(file))


STAND_IN = {"vehicle": "x500", "sensors": "motion_capture", "autopilot": "stand_in"}


@pytest.mark.parametrize(
    ("place", "arrives"),
    [({"field": "dead_end"}, False), ({"world": "flat", "goal_W_m": [4.0, 0.0, 2.0]}, True)],
    ids=["a wall between", "nothing between"],
)
def test_a_policy_that_sees_no_obstacles_flies_behind_the_guard(linear, tmp_path, place, arrives):
    """It flies straight to its goal: the guard stops it before what is in the way."""
    linear("velocity")
    given = {"stand_in": STAND_IN, "planner": "velocity.onnx", "duration_s": 8.0, **place}
    file = tmp_path / "rehearsal.yaml"
    file.write_text(json.dumps(given), encoding="utf-8")
    flown = RehearsalFlight(load_rehearsal(str(file))).fly()
    assert flown.arrived == arrives
    assert not flown.collided
    assert flown.speed_mps > 1.0


def test_only_a_policy_of_velocities_flies_behind_the_guard(linear, tmp_path):
    file = tmp_path / "rehearsal.yaml"
    given = {"stand_in": STAND_IN, "planner": linear("rates"), "field": "row"}
    file.write_text(json.dumps(given), "utf-8")
    with pytest.raises(InputError, match=r"planner .*rates\.onnx: .* fly it as controller"):
        load_rehearsal(str(file))


def test_a_policy_flies_a_campaign_which_knows_its_file(linear, tmp_path):
    """Each seed is another flight; a run is the same again, and refused with another policy."""
    policy, file = Path(linear("attitude")), tmp_path / "campaign.yaml"
    constants = {"parts.controller": str(policy), "duration_s": 6.0}
    file.write_text(
        json.dumps({"samples": 1, "repeats": 2, "scenario": "hover", "set": constants}), "utf-8"
    )
    campaign = load_campaign(str(file))
    files = tuple(prepare_campaign(campaign)["files"].items())
    terms = Terms(60.0, files, tuple(decisive_versions().items()), False)
    rows = [fly_run(terms, campaign.run(number)) for number in (0, 1, 0)]
    assert all(row["status"] != "broken" for row in rows), rows
    assert rows[0]["digest"] == rows[2]["digest"] != rows[1]["digest"]
    policy.write_bytes(policy.read_bytes() + b"\0")
    with pytest.raises(OtherFileError, match="is not the file that was planned with"):
        fly_run(replace(terms, limit_s=61.0), campaign.run(0))


class Spin:
    """Asks for a yaw rate while it hovers."""

    def __init__(self, by_rates=True):
        self.by_rates = by_rates

    def update(self, now):
        if now.mode != "hover" or now.time_s > 1.5:
            return None
        if self.by_rates:
            return Rates([0.0, 0.0, 0.7], GRAVITY)
        return Attitude(0.1, -0.1, 0.0, GRAVITY)


@pytest.mark.parametrize("by_rates", [True, False])
def test_a_controller_may_command_rates_or_an_attitude_and_hand_back(by_rates):
    simulation = Simulation(
        "hover", fly_on="truth", start_mission=False, controller=Spin(by_rates),
        start={"z_m": 5.0},
    )  # fmt: skip
    simulation.step(500)
    if by_rates:
        np.testing.assert_allclose(simulation.state.w_B, [0.0, 0.0, 0.7], atol=0.1)
    else:
        w, x, y, z = simulation.state.q_WB
        assert abs(2.0 * (w * x + y * z) - np.sin(0.1) * np.cos(0.1)) < 0.02
        assert abs(2.0 * (w * y - z * x) + np.sin(0.1)) < 0.02
    simulation.step(2500)
    assert np.linalg.norm(simulation.state.w_B) < 0.05
    assert np.linalg.norm(simulation.state.p_W - [0.0, 0.0, 5.0]) < 0.3


def test_numbers_that_are_not_finite_land_the_vehicle(tmp_path):
    gains, bias = gains_of("attitude")
    told = {"task": "hover", "observation": "truth", "action": "attitude"}
    file = write_linear(tmp_path / "nan.onnx", gains * np.nan, bias, told)
    simulation = Simulation("hover", controller=str(file))
    with pytest.raises(PartError, match=r"nan\.onnx: failed at .* finite numbers"):
        simulation.run()
    assert simulation.state.p_W[2] < 0.3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"part": "none.onnx"}, "controller none.onnx: none.onnx: there is no such file"),
        ({"part": "text.onnx"}, "text.onnx: no ONNX that onnxruntime reads"),
        ({"part": "mute.onnx"}, "does not say its task, observation, action"),
        ({"part": "mute.onnx", "task": "hover", "observation": "truth"}, "its action"),
        ({"part": "told.onnx", "action": "sticks"}, "action: 'sticks'; allowed: rotor_speeds"),
        ({"part": "told.onnx", "observation": "smell"}, "observation: 'smell'; allowed: truth"),
        ({"part": "told.onnx", "task": "hovr"}, "task: 'hovr'; allowed: hover"),
        ({"part": "told.onnx", "task": "forest"}, "sees ranges"),
        ({"part": "told.onnx", "goal": "home"}, "goal: 'home'; allowed: mission, task"),
        ({"part": "told.onnx", "period_s": 0}, "period_s: 0; allowed: 0.001 to 1"),
        ({"part": "told.onnx", "period_s": float("nan")}, "period_s: nan; allowed"),
        ({"part": "told.onnx", "limits": {"rate_radps": -6}}, "limits: rate_radps: -6; allowed"),
        ({"part": "told.onnx", "limits": {"rate": 6}}, "limits: unknown key 'rate'; allowed"),
        ({"part": "told.onnx", "memory": [1.0]}, "memory: [1.0]; needed: at most 0"),
        ({"part": "listed.onnx"}, "quadsim in it is [1]; needed: keys and values"),
    ],
)
def test_what_is_no_policy_is_refused_in_a_line(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    gains, bias = gains_of("attitude")
    told = {"task": "hover", "observation": "truth", "action": "attitude"}
    write_linear(tmp_path / "mute.onnx", gains, bias, {})
    write_linear(tmp_path / "told.onnx", gains, bias, told)
    write_linear(tmp_path / "listed.onnx", gains, bias, [1])
    (tmp_path / "text.onnx").write_text("hover")
    with pytest.raises(InputError) as caught:
        Simulation("hover", parts={"controller": arguments})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gate_counts_once_whoever_begins_anew_meanwhile():
    """The goal of all is asked for where one begins; a gate that another one passes is its own."""
    gymnasium = pytest.importorskip("gymnasium")
    assert gymnasium
    from quadsim.gym import VectorEnv

    class Through(Race):
        episode_s = 0.4

        def begin(self, start):
            start.memory[:, 0] = 0.0
            start.motions["p_W"] = [4.0, -0.5, 5.0]
            start.motions["v_W"] = [0.0, 2.0, 0.0]

    env = VectorEnv(Through(), 2, action="velocity", units=1, threads=1)
    env.reset(seed=1)
    env.step(np.zeros((2, 4)))
    env.reset(options={"reset_mask": np.array([True, False])})  # they end apart from now on
    rewards = np.array([env.step(np.tile([0.0, 0.4, 0.0, 0.0], (2, 1)))[1] for _ in range(60)])
    gates = (rewards > 5.0).sum(axis=0)
    assert gates.tolist() == [3, 3]


def test_a_lap_is_four_gates():
    task, seen = Race(), np.zeros(1, SEEN)
    memory, none = np.zeros((1, task.memory)), np.zeros((1, 4))
    for k in range(4):
        for along_m in (-0.2, 0.1):
            seen["true"]["p_W"] = task.gates_W[k] + along_m * task.through_W[k]
            view = view_of_one(0.0, seen, none, none, memory)
            view.goal_W = task.goal(view)
        assert bool(task.achieved(view)[0]) is (k == 3)

"""Environments to learn in: their interfaces, their worlds, and that they are the closed loop."""

import gc

import numpy as np
import psutil
import pytest

from quadsim import InputError
from quadsim.base.noise import stream
from quadsim.base.normals import words_of

gymnasium = pytest.importorskip("gymnasium")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")

from quadsim.gym import TASKS, Env, Task, VectorEnv  # noqa: E402
from quadsim.sim.loop import ticks  # noqa: E402
from quadsim.sim.vehicles import NoiseSource, Vehicles, WhiteNoise  # noqa: E402
from quadsim.sim.worlds import ACTIONS  # noqa: E402

#: Thousands of steps, which take minutes where kernels are not compiled.
pytestmark = pytest.mark.many

QUICK = {"units": 2, "threads": 1}


def flown(env, steps, seed=5, scale=0.1):
    """Observations, rewards and ends of random actions, which depend on the world's place alone."""
    seen = [env.reset(seed=seed)[0]]
    rng, width = np.random.default_rng(1), env.single_action_space.shape[0]
    actions = rng.uniform(-scale, scale, (steps, width)).astype(np.float32)
    ends = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(np.tile(action, (env.num_envs, 1)))
        seen.append(observation)
        ends.append((reward, terminated, truncated))
    return np.array(seen), ends


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("task", list(TASKS))
def test_gymnasium_accepts_the_environment_of_each_task(task):
    env = Env(task, **QUICK)
    env_checker.check_env(env, skip_render_check=True)


def test_gymnasium_makes_them_by_name():
    envs = gymnasium.make_vec("quadsim/Hover-v0", num_envs=3, **QUICK)
    observation, _ = envs.reset(seed=1)
    assert observation.shape == (3, 28)
    assert envs.observation_space.contains(observation)
    one = gymnasium.make("quadsim/Race-v0", **QUICK)
    assert one.observation_space.contains(one.reset(seed=1)[0])


@pytest.mark.parametrize("observation", ["truth", "estimate", "sensors"])
@pytest.mark.parametrize("action", ACTIONS)
def test_every_observation_and_action_flies(observation, action):
    env = VectorEnv("reach", 4, observation=observation, action=action, **QUICK)
    seen, _ = flown(env, 25)
    assert np.isfinite(seen).all()
    assert np.abs(seen).max() < 20.0
    assert np.abs(seen[-1] - seen[0]).max() > 0.01


@pytest.mark.parametrize("action", ["rates", "velocity"])
def test_a_world_among_many_is_the_one_alone_to_the_bit(action):
    many = VectorEnv("hover", 40, observation="estimate", action=action, units=2, threads=2)
    alone = VectorEnv("hover", 1, observation="estimate", action=action, **QUICK)
    wanted, _ = flown(many, 60)
    for world in (0, 17, 39):
        found, _ = flown(alone, 60, seed=5 + world)
        np.testing.assert_array_equal(found[:, 0], wanted[:, world])


def test_a_seed_repeats_and_another_does_not():
    env = VectorEnv("land", 3, **QUICK)
    first, again, other = flown(env, 10)[0], flown(env, 10)[0], flown(env, 10, seed=8)[0]
    np.testing.assert_array_equal(first, again)
    assert (first[0] != other[0]).any()
    assert len({tuple(row) for row in first[0]}) == 3


def test_a_world_is_the_closed_loop():
    """The same state, noise and setpoint through ``Vehicles.advance`` give the same bytes."""
    env = VectorEnv("hover", 2, observation="estimate", action="velocity", **QUICK)
    env.reset(seed=3)
    worlds = env.worlds
    one = Vehicles(env.scenario, ["quad"], 1.0, 1.0)
    one.states[:] = worlds.states[1:]
    one.setups[:] = worlds.setups[1:]
    for own, other in zip(one.devices.values(), worlds._flight.devices, strict=True):
        own[:] = other[1:]
    kinds = []
    for k, every_ns in enumerate(worlds._every_ns[1]):
        sources = []
        for words in worlds._words[k][1]:
            generator = stream(1, "quad", str(k))
            state = generator.bit_generator.state
            state["state"]["state"][:] = words
            generator.bit_generator.state = state
            assert (words_of(generator) == words).all()
            sources.append(NoiseSource(generator, int(every_ns), worlds._noise[k].shape[3]))
        kinds.append([sources])
    noise = WhiteNoise(kinds)
    one._flight = one._flight._replace(
        white=noise.white[:-1],
        wind=noise.white[-1][:, 0],
        used=noise.used,
        log=worlds._flight.log[1:],
    )
    one.noise = noise
    one._ticks = ticks(one._flight, one._until_ns)
    for k in range(20):
        action = np.full((2, 4), 0.02 * k, np.float32)
        env.step(action)
        setpoint = worlds.states["setpoint"][1]
        one.states["setpoint"][0] = setpoint
        one.advance(k * 20_000_000, (k + 1) * 20_000_000)
    for part in ("truth", "odometry", "inner", "vehicle"):
        assert one.states[part][0].tobytes() == worlds.states[part][1].tobytes()
    for own, other in zip(one.devices.values(), worlds._flight.devices, strict=True):
        assert own[0].tobytes() == other[1].tobytes()


def test_the_rate_loop_gives_the_rates_that_are_asked_for():
    env = VectorEnv("reach", 1, action="rates", **QUICK)
    env.reset(seed=1)
    for _ in range(15):
        env.step(np.array([[0.2, 0.0, 0.1, -0.3]], np.float32))
    w_B = env.worlds.seen["true"]["w_B"][0]
    np.testing.assert_allclose(w_B, [1.2, 0.0, 0.6], atol=0.15)


def test_velocity_is_flown_on_the_estimate():
    env = VectorEnv("reach", 2, observation="estimate", action="velocity", **QUICK)
    env.reset(seed=1)
    for _ in range(100):
        env.step(np.tile(np.array([0.2, -0.1, 0.1, 0.0], np.float32), (2, 1)))
    v_W = env.worlds.seen["true"]["v_W"]
    np.testing.assert_allclose(v_W, np.tile([1.0, -0.5, 0.5], (2, 1)), atol=0.3)


class Short(Task):
    """The example of docs/learning.md."""

    episode_s = 0.1

    def begin(self, start):
        start.motions["p_W"] = [0.0, 0.0, 5.0]
        start.motions["v_W"] = start.uniform(-1.0, 1.0, 3)

    def reward(self, view):
        return -np.abs(view.v_W[:, 2])

    def terminated(self, view):
        return view.crashed


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_episodes_end_as_gymnasium_says(mode):
    env = VectorEnv(Short(), 2, autoreset_mode=mode, **QUICK)
    env.reset(seed=1)
    hold = np.zeros((2, 4), np.float32)
    for _ in range(4):
        assert not env.step(hold)[3].any()
    observation, _, terminated, truncated, info = env.step(hold)
    assert truncated.all()
    assert not terminated.any()
    if mode == "SameStep":
        assert info["_final_obs"].all()
        assert (info["final_obs"][0] != observation[0]).any()
        assert env.worlds.seen["time_s"].max() == 0.0
    elif mode == "NextStep":
        assert env.worlds.seen["time_s"].min() > 0.09
        _, reward, _, truncated, _ = env.step(hold)
        assert env.worlds.seen["time_s"].max() == 0.0
        assert not reward.any()
        assert not truncated.any()
    else:
        with pytest.raises(InputError, match="is over; reset it first"):
            env.step(hold)
        env.reset(options={"reset_mask": np.array([True, False])})
        assert env.worlds.seen["time_s"][0] == 0.0
        assert env.worlds.seen["time_s"][1] > 0.0


def test_a_motion_that_is_not_finite_ends_its_episode_and_harms_nobody():
    hold = np.zeros((3, 4), np.float32)
    kept = VectorEnv("reach", 3, **QUICK)
    env = VectorEnv("reach", 3, **QUICK)
    for each in (kept, env):
        each.reset(seed=4)
        each.step(hold)
    env.worlds.states["vehicle"]["x"][1, 3] = np.inf
    for _ in range(5):
        wanted = kept.step(hold)
        found = env.step(hold)
        np.testing.assert_array_equal(found[0][[0, 2]], wanted[0][[0, 2]])
        np.testing.assert_array_equal(found[1][[0, 2]], wanted[1][[0, 2]])
        if found[2].any():
            assert found[2].tolist() == [False, True, False]
            assert "infinity" in found[4]["fault"][1]
            assert np.isfinite(found[0]).all()
            break
    else:
        pytest.fail("the episode went on")
    env.step(hold)
    assert env.worlds.seen["time_s"][1] == 0.0
    assert env.worlds.fault(1) == ""
    assert np.isfinite(env.step(hold)[0]).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "hovr"}, "task: 'hovr'; allowed: hover, reach"),
        ({"observation": "camera"}, "observation: 'camera'; allowed: truth"),
        ({"action": "sticks"}, "action: 'sticks'; allowed: rotor_speeds"),
        ({"num_envs": 0}, "num_envs: 0; allowed: 1"),
        ({"period_s": 0.003}, "period_s: 0.003; allowed: a multiple of the IMU's 0.002 s"),
        ({"fly_on": "hope"}, "fly_on: 'hope'"),
        ({"estimate_sigma": [1.0]}, "estimate_sigma"),
        ({"randomise": {"vehicle.mass_kg": [1.0]}}, "randomise: vary: vehicle.mass_kg"),
        ({"randomise": {"world": {"choices": ["flat"]}}}, "all worlds share one scene"),
        ({"changes": {"vehicle.weight": 1.0}}, "weight"),
        ({"render_mode": "human"}, "render_mode"),
        ({"units": 0}, "units: 0"),
        ({"units": 2.5}, "units: 2.5"),
        ({"period_s": float("nan")}, "period_s: nan; allowed"),
        ({"period_s": "fast"}, "period_s: 'fast'; allowed"),
        ({"limits": {"rate_radps": -1.0}}, "limits: rate_radps: -1.0; allowed: 0.01 to 200"),
        ({"limits": {"tilt_rad": float("nan")}}, "limits: tilt_rad: nan"),
        ({"limits": {"rate": 1.0}}, "limits: unknown key 'rate'; allowed: rate_radps"),
        ({"limits": 3}, "limits: 3; needed"),
        ({"estimate_sigma": 0.3}, "estimate_sigma: 0.3; needed: 4"),
        ({"autoreset_mode": "never"}, "autoreset_mode: 'never'; allowed: NextStep"),
        ({"vehicles": 3}, "vehicles: 3; several in a world: quadsim.gym.SwarmEnv"),
        ({"changes": [1]}, "changes: [1]; needed: keys and values"),
        ({"changes": {"start.z_m": 9.0}}, "start.z_m: no episode looks at it; the task decides it"),
        ({"randomise": {"duration_s": {"range": [1, 9]}}}, "the task's episode_s decides it"),
        (
            {"randomise": {"vehicle": {"choices": ["x500", "hexacopter"]}}},
            "randomise: vehicles of 4 and 6 rotors",
        ),
        (
            {
                "randomise": {"sensors.imu.rate_hz": {"choices": [500.0, 250.0]}},
                "units": 8,
                "period_s": 0.006,
            },
            "period_s: 0.006; allowed: a multiple of the IMU's 0.004 s",
        ),
        ({"task": type("Own", (Task,), {"memory": 1.5})}, "memory: 1.5 of the task"),
        ({"task": type("Own", (Task,), {"episode_s": float("nan")})}, "episode_s: nan"),
        ({"task": type("Own", (Task,), {"vectors_count": 1})}, "vectors_count: 1, of 0 features"),
        (
            {"task": type("Own", (Task,), {"features": lambda self, view: view.p_W})},
            "features_count: 0, but the task has features",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_line(arguments, words):
    with pytest.raises(InputError) as caught:
        VectorEnv(**({"task": "hover", **QUICK} | arguments))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (np.zeros(4), "of shape (4,); needed: (2, 4)"),
        (np.full((2, 4), np.nan), "nan of environment 0; allowed: -1 to 1"),
        (np.array([[0.0] * 4, [0.0, 0.0, 1.5, 0.0]]), "1.5 of environment 1"),
        ([["a"] * 4] * 2, "no array of numbers"),
    ],
)
def test_a_bad_action_is_refused_in_a_line_and_moves_nothing(action, words):
    env = VectorEnv("hover", 2, **QUICK)
    with pytest.raises(InputError, match="reset the environment first"):
        env.step(np.zeros((2, 4)))
    env.reset(seed=1)
    with pytest.raises(InputError) as caught:
        env.step(action)
    assert words in str(caught.value)
    assert env.worlds.seen["time_s"].max() == 0.0


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"reward": lambda s, view: np.full(len(view.p_W), np.nan)}, "reward: nan of vehicle 0"),
        ({"reward": lambda s, view: view.p_W}, "reward: of shape (2, 3); needed: (2,)"),
        ({"reward": lambda s, view: None}, "reward: of the task: no array of numbers"),
        ({"terminated": lambda s, view: view.up[:, None]}, "terminated: of shape (2, 1)"),
        ({"terminated": lambda s, view: np.nan * view.up}, "terminated: nan of vehicle 0"),
        ({"goal": lambda s, view: view.p_W[:, :2]}, "goal: of shape (2, 2); needed: (2, 3)"),
        ({"goal": lambda s, view: np.nan * view.p_W}, "goal: [nan nan nan] of vehicle 0"),
        (
            {"features": lambda s, view: np.nan * view.p_W, "features_count": 3},
            "features: [nan nan nan] of vehicle 0",
        ),
        ({"begin": lambda s, start: start.motions["p_W"].fill(np.nan)}, "begin: p_W is not finite"),
        ({"begin": lambda s, start: start.motions["q_WB"].fill(0.0)}, "begin: q_WB is of length 0"),
        (
            {"begin": lambda s, start: setattr(start, "motions", None)},
            "begin: motions are others",
        ),
    ],
)
def test_what_a_task_says_wrongly_is_refused_in_a_line(methods, words):
    env = VectorEnv(type("Own", (Task,), methods), 2, **QUICK)
    with pytest.raises(InputError) as caught:  # noqa: PT012
        env.reset(seed=1)
        env.step(np.zeros((2, 4)))
    assert words in str(caught.value)


def test_a_first_reset_begins_all():
    """Worlds that had never begun were advanced for ever."""
    env = VectorEnv("hover", 2, **QUICK)
    with pytest.raises(InputError, match="the first reset begins all"):
        env.reset(seed=1, options={"reset_mask": np.array([True, False])})


def test_a_seed_of_numpy_is_one():
    env = VectorEnv("hover", 2, **QUICK)
    wanted = env.reset(seed=7)[0]
    np.testing.assert_array_equal(env.reset(seed=np.int64(7))[0], wanted)
    np.testing.assert_array_equal(env.reset(seed=np.array([7, 8]))[0], wanted)
    with pytest.raises(InputError, match=r"seed: 3\.0"):
        env.reset(seed=3.0)


def test_an_action_of_1_is_that_of_the_vehicle_that_nothing_was_drawn_of():
    """A policy flies with the limits of the vehicle as its file has it."""
    vary = {"vehicle.mass_kg": {"range": [1.0, 1.3]}}
    drawn = VectorEnv("hover", 2, randomise=vary, **QUICK)
    plain = VectorEnv("hover", 2, **QUICK)
    np.testing.assert_array_equal(drawn._high, plain._high)
    np.testing.assert_array_equal(drawn._low, plain._low)


def test_episodes_differ_by_what_is_randomised():
    vary = {
        "vehicle.mass_kg": {"range": [1.5, 2.5]},
        "sensors.gnss.latency_s": {"choices": [0.1, 0.2]},
    }
    env = VectorEnv("hover", 12, randomise=vary, units=6, threads=1)
    env.reset(seed=1)
    masses = env.worlds.setups["vehicle"]["mass_kg"]
    assert len(set(masses.tolist())) > 2
    assert masses.min() >= 1.5
    assert masses.max() <= 2.5
    held = env.worlds.states["vehicle"]["held"]["mass_kg"]
    np.testing.assert_array_equal(held, masses)


def test_ten_thousand_resets_hold_no_memory():
    env = VectorEnv("hover", 50, **QUICK)
    env.reset(seed=1)
    hold = np.zeros((50, 4), np.float32)
    process = psutil.Process()

    def use():
        for _ in range(100):
            env.reset()
        env.step(hold)
        gc.collect()
        return process.memory_info().rss

    use()
    before = use()
    assert use() - before < 2e6


def test_a_first_reset_touches_a_part_of_the_memory():
    """Worlds of 2.3 MB each, of which half a second of measurements is the most, come to use it."""
    VectorEnv("hover", 1, **QUICK).reset(seed=1)  # loads or compiles the kernels
    env = VectorEnv("hover", 100, **QUICK)
    before, size = psutil.Process().memory_info().rss, env.worlds.states.nbytes
    env.reset(seed=1)
    assert psutil.Process().memory_info().rss - before < 0.4 * size


def test_a_swarm_passes_the_test_of_pettingzoo():
    parallel = pytest.importorskip("pettingzoo.test")
    from quadsim.gym import SwarmEnv

    env = SwarmEnv("reach", vehicles=3, **QUICK)
    parallel.parallel_api_test(env, num_cycles=120)
    env.reset(seed=1)
    hold = dict.fromkeys(env.agents, np.zeros(4))
    for action, words in (
        ({"quad1": np.zeros(4)}, "for quad2; needed"),
        (hold | {"quad3": np.full(4, np.nan)}, r"\[nan nan nan nan\] for quad3; allowed"),
        (hold | {"quad9": np.zeros(4)}, "action: of quad9; agents: quad1"),
    ):
        with pytest.raises(InputError, match=words):
            env.step(action)


def test_vehicles_of_a_swarm_feel_each_other():
    pytest.importorskip("pettingzoo")
    from quadsim.gym import SwarmEnv

    class Above(Short):
        episode_s = 5.0

        def begin(self, start):
            start.motions["p_W"][:] = [[0.0, 0.0, 6.0], [0.0, -2.0, 5.2]][: len(start.motions)]

    def last(vehicles):
        env = SwarmEnv(Above(), vehicles=vehicles, action="velocity", **QUICK)
        env.reset(seed=1)
        for _ in range(25):
            env.step({who: np.zeros(4) for who in env.agents})
        return env._one.worlds.seen["true"]["p_W"]

    two = last(2)
    assert np.linalg.norm(two[0, :2] - two[1, :2]) < 0.5
    assert abs(two[1, 2] - 5.2) > 0.005  # blown down

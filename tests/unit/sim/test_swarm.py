"""Several vehicles in one world: as each alone when far apart, and together when near."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from quadsim_bench.swarm import arrived_percent

from quadsim.analysis.criteria import judge_signal
from quadsim.analysis.summary import summarize_all
from quadsim.base.errors import FlightError
from quadsim.base.records import MODE_POSITION, MODE_VELOCITY, SETPOINT
from quadsim.control.parameters import PositionParams
from quadsim.mission.items import items_from
from quadsim.sim.closed_loop import ClosedLoop, vehicle_names
from quadsim.sim.criterion import Criterion, EventCriterion, SignalCriterion
from quadsim.sim.log import CRASH_REST_NS, Event, FlightLog, Track
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.sim.swarm import Swarm, run_all, wished_velocities
from quadsim.vehicle.outline import outline_m


def changed(scenario, **keys):
    """A scenario with other keys of its file."""
    return replace(scenario, file=replace(scenario.file, **keys))


def named(logs):
    return dict(zip(vehicle_names(len(logs)), logs, strict=True))


def events_of(log, name):
    return [event for event in log.events if event.name == name]


@pytest.fixture(scope="module")
def crossing():
    """Five vehicles that change places across a circle: their logs and the digest."""
    return run_all(load_scenario("crossing", vehicles=5))


def test_who_is_far_from_everybody_flies_as_if_alone():
    """Squares 60 m apart, and each by itself, under its name, where it stood."""
    scenario = load_scenario("square", duration_s=10.0, vehicles=2)
    start = replace(scenario.file.start, spacing_m=60.0)
    far = changed(scenario, start=start, swarm=replace(scenario.file.swarm, avoid=True))
    swarm = Swarm(far, keep_samples=True)
    logs = swarm.fly()
    for i, (x_m, y_m, _) in enumerate(start.poses(2)):
        place = replace(start, x_m=x_m, y_m=y_m)
        alone = replace(changed(far, start=place, vehicles=1), items=far.missions(2)[i])
        loop = ClosedLoop(alone, keep_samples=True, vehicle=f"quad{i + 1}")
        log = loop.fly()
        assert log.truth.p_W.tobytes() == logs[i].truth.p_W.tobytes()
        assert log.truth.p_W[-1, 2] > 1.0
        for kind in scenario.sensors:
            assert len(loop.samples(kind)) > 20
            assert loop.samples(kind).tobytes() == swarm.loops[i].samples(kind).tobytes()
    np.testing.assert_allclose(logs[1].truth.p_W[0], logs[0].truth.p_W[0] - (0.0, 60.0, 0.0))


def test_they_cross_without_meeting_and_all_arrive(crossing):
    logs, digest = crossing
    scenario = load_scenario("crossing", vehicles=5)
    summary = summarize_all(named(logs), scenario.criteria)
    assert summary["passed"], summary["errors"]
    assert [run["vehicle"] for run in summary["runs"]] == vehicle_names(5)
    for log in logs:
        assert events_of(log, "gives way")
        assert np.hypot(*(log.truth.p_W[-1] + log.truth.p_W[0])[:2]) < 0.3  # opposite its start
    # the gap, once more: level distance of the axes less twice the radius
    places = np.stack([log.truth.p_W[:, :2] for log in logs])
    apart = np.linalg.norm(places[:, None] - places[None], axis=3) + 1e9 * np.eye(5)[:, :, None]
    (gap,) = [item for item in summary["criteria"] if item["name"] == "gap_m"]
    assert gap["value"] == pytest.approx(apart.min() - 2.0 * outline_m(scenario.vehicle)[0])
    # what they are asked to keep between their axes, less what their lag costs
    assert apart.min() > 0.9 * 2.0 * scenario.file.swarm.give_way.radius_m
    assert run_all(scenario)[1] == digest


def test_without_giving_way_they_collide():
    scenario = load_scenario("crossing", vehicles=4, duration_s=20.0)
    logs, _ = run_all(changed(scenario, swarm=replace(scenario.file.swarm, avoid=False)))
    assert any("struck another vehicle" in e.message for log in logs for e in log.events)
    for log in logs:  # whatever its autopilot makes of a crash is told for 2 s
        for crash in events_of(log, "crash"):
            assert log.events[-1].stamp_ns <= crash.stamp_ns + CRASH_REST_NS
    summary = summarize_all(named(logs), scenario.criteria)
    assert not summary["passed"]
    (gap,) = [item for item in summary["criteria"] if item["name"] == "gap_m"]
    assert (gap["value"], gap["passed"]) == (0.0, False)
    assert any(words.startswith("quad") for words in summary["errors"])


def test_a_formation_is_reached_by_all_at_one_time():
    """All begin and end their legs within a tick or two; places are those of the formation."""
    scenario = load_scenario("formation", vehicles=5)
    mission = [
        {"takeoff": {"height_m": 2.0}},
        {"formation": {"shape": "vee", "center_W_m": [6.0, 0.0, 2.5], "spacing_m": 4.0}},
        {"gather": None},
        {"land": {}},
    ]
    scenario = replace(scenario, items=items_from(mission, "here"))
    logs, _ = run_all(scenario)
    begun, ended = (
        [[e.stamp_ns for e in log.events if e.message.endswith(words)][-1] for log in logs]
        for words in ("goto", "gather")
    )
    assert max(begun) - min(begun) <= 20_000_000
    assert max(ended) - min(ended) < 0.3e9
    landed = np.array([log.truth.p_W[-1, :2] for log in logs])
    wanted = np.array([items[2].position_W_m[:2] for items in scenario.missions(5)])
    np.testing.assert_allclose(landed, wanted, atol=0.3)


def test_who_stops_is_not_waited_for():
    """The second stops its motors on the way: the others go on without it."""
    scenario = load_scenario("formation", vehicles=3)
    mission = [{"takeoff": {"height_m": 2.0}}, {"gather": None}, {"land": {}}]
    swarm = Swarm(replace(scenario, items=items_from(mission, "here")))
    first, second, third = (loop.manager for loop in swarm.loops)

    def until(condition):
        for _ in range(1000):
            swarm.tick()
            for loop in swarm.loops:
                loop.take_off_when_ready()
            if condition():
                return
        raise AssertionError

    until(lambda: third.state == "takeoff")
    third.enter("hover", "held back")  # somebody took it over
    until(lambda: first.state == "mission")
    assert (first.state, second.state) == ("mission", "mission")
    until(lambda: first.state == "landing")  # who is commanded otherwise is not waited for

    swarm = Swarm(replace(scenario, items=items_from(mission, "here")))
    first, second, third = (loop.manager for loop in swarm.loops)
    until(lambda: second.state == "takeoff")
    second.disarm(force=True)
    until(lambda: first.state == "landing")
    assert second.state == "stopped"


@pytest.fixture
def gathering():
    """Three that have taken off and gather twice."""
    mission = [{"takeoff": {}}, {"gather": None}, {"hover": {}}, {"gather": None}, {"land": {}}]
    swarm = Swarm(replace(load_scenario("formation", vehicles=3), items=items_from(mission, "h")))
    managers = [loop.manager for loop in swarm.loops]
    for manager in managers:
        manager.state, manager.mission.index = "mission", 1
    return swarm, managers


def gathered(swarm, managers):
    """Who goes on after a look."""
    swarm._gather()
    return [manager.mission.released for manager in managers]


def test_the_hindmost_go_on_first(gathering):
    swarm, managers = gathering
    managers[1].mission.index = 3  # already at the second
    assert gathered(swarm, managers) == [True, False, True]


@pytest.mark.parametrize("each_starts", [True, False])
def test_who_stays_on_the_ground_is_not_waited_for(gathering, each_starts):
    """Disarmed: waited for if it starts by itself. Armed: in any case. Crippled: never."""
    swarm, managers = gathering
    swarm.each_starts, third = each_starts, managers[2]
    third.state = "armed"
    assert gathered(swarm, managers) == [False] * 3
    third.state = "disarmed"
    if each_starts:
        assert gathered(swarm, managers) == [False] * 3
        third.motor_lost(0)
    assert gathered(swarm, managers) == [True, True, False]


def test_who_is_put_somewhere_goes_on_with_an_estimate_of_that_place():
    """It hovers 40 m away and upright to another heading: the filter was at the old place."""
    keys = {"start.z_m": 5.0, "start.estimate": "truth"}
    swarm = Swarm(load_scenario("hover", keys, vehicles=2))
    state = swarm.vehicles.states[1]
    for _ in range(50):
        swarm.tick()
    motion = state["truth"][0].copy()
    motion["p_W"] += [40.0, 0.0, 3.0]
    motion["v_W"], motion["w_B"] = [1.0, 0.0, 0.0], 0.0
    motion["q_WB"] = [0.5**0.5, 0.0, 0.0, 0.5**0.5]
    swarm.place(1, motion)
    for _ in range(50):
        swarm.tick()
        true, known = state["truth"][0], state["odometry"]
        assert np.linalg.norm(known["p_W"] - true["p_W"]) < 0.5
        assert np.linalg.norm(known["v_W"] - true["v_W"]) < 0.5
        assert abs(known["q_WB"] @ true["q_WB"]) > 0.999


def test_missions_are_worked_out_once_and_the_first_fault_is_named(monkeypatch):
    asked, missions = [], Scenario.missions
    scenario = load_scenario("formation", vehicles=4)

    def counted(self, count):
        asked.append(count)
        return missions(self, count)

    monkeypatch.setattr(Scenario, "missions", counted)
    swarm = Swarm(scenario)
    assert asked == [4]
    swarm.check()
    vehicles = swarm.vehicles.states["vehicle"]
    vehicles["fault"][1:] = 1
    vehicles["fault_ns"][1:] = np.array([7, 5, 6]) * 1_000_000_000
    assert swarm.first_fault == 2
    with pytest.raises(FlightError, match=r"of quad3 at t = 5\.000 s"):
        swarm.check()


def test_samples_that_arrived_count_of_those_that_were_sent():
    """Every second one lost, or the whole end; nothing heard is no figure."""
    sent = list(range(1_000, 2_001, 5))
    assert arrived_percent({"quad1": sent}, 1_000, 2_000, 5) == 100.0
    assert arrived_percent({"quad1": sent, "quad2": sent[::2]}, 1_000, 2_000, 5) == 50.0
    assert arrived_percent({"quad1": sent[:51]}, 1_000, 2_000, 5) == 25.0
    with pytest.raises(FlightError, match="nothing was heard of the IMU of quad2"):
        arrived_percent({"quad1": sent, "quad2": []}, 1_000, 2_000, 5)


def test_wishes_are_those_of_the_position_loop():
    """Near: P; far: the speed from which a steady braking leads there; never above the limit."""
    params = PositionParams()
    setpoints = np.zeros(4, SETPOINT)
    setpoints["mode"] = (MODE_POSITION, MODE_POSITION, MODE_VELOCITY, MODE_POSITION)
    setpoints["p_W"][:, 0] = (0.1, 2.0, 9.0, 500.0)
    setpoints["v_W"][:, 1] = 0.5
    wish_W = wished_velocities(setpoints, np.zeros((4, 3)), params)
    gain, braking = params.position_gain_xy, params.braking_mps2
    assert wish_W[0] == pytest.approx((0.1 * gain, 0.5, 0.0))
    speed = wish_W[1, 0]
    stop_m = (speed**2 - (braking / gain) ** 2) / (2.0 * braking) + braking / gain**2
    assert stop_m == pytest.approx(2.0)
    assert wish_W[2] == pytest.approx((0.0, 0.5, 0.0))
    assert np.hypot(*wish_W[3, :2]) == pytest.approx(params.speed_max_mps)


def test_the_gap_is_that_between_upright_cylinders():
    """Side by side, above each other, and slantwise; who has landed for good does not count."""
    logs = []
    for x, z in ((0.0, 0.0), (3.0, 0.0), (0.0, 4.0), (3.0, 3.0)):
        truth = Track.empty(11)
        truth.stamp_ns[:] = 10_000_000 * np.arange(11)
        truth.p_W[:] = (x, 0.0, z)
        logs.append(FlightLog(truth=truth, hull_m=(0.5, 0.4)))
    band = SignalCriterion("gap_m", limit=100.0, least=1.0)

    def gap(*chosen):
        return judge_signal(band, [logs[k] for k in chosen]).value

    assert gap(0, 1) == pytest.approx(2.0)
    assert gap(0, 2) == pytest.approx(3.6)
    assert gap(0, 3) == pytest.approx(np.hypot(2.0, 2.6))
    assert gap(1, 2, 3) == pytest.approx(np.hypot(2.0, 0.6))
    logs[1].truth = logs[1].truth[:6]
    assert judge_signal(band, [logs[0], logs[1]]).value == pytest.approx(2.0)


def test_a_summary_of_several_has_passed_if_each_has():
    """A bound that the second breaks; the worst of each criterion says whose it is."""
    logs = {}
    for name, off_m in (("quad1", 0.1), ("quad2", 0.3)):
        truth = Track.empty(1001)
        truth.stamp_ns[:] = 10_000_000 * np.arange(1001)
        estimate = Track.empty(1001, with_sigma=True)
        estimate.stamp_ns[:], estimate.p_W[:, 0] = truth.stamp_ns, off_m
        events = [Event(3_000_000_000, 0, "landed", "here")] if name == "quad1" else []
        logs[name] = FlightLog(truth=truth, estimates={"eskf": estimate}, events=events)
    bound = Criterion("estimator.position_rmse_m", 0.2)
    summary = summarize_all(logs, [bound, EventCriterion("landed")])
    assert not summary["passed"]
    assert [run["passed"] for run in summary["runs"]] == [True, False]
    digests = "".join(run["digest"] for run in summary["runs"])
    assert summary["digest"] == hashlib.sha256(digests.encode()).hexdigest()
    first, second = summary["criteria"]
    assert (first["vehicle"], first["value"]) == ("quad2", pytest.approx(0.3))
    assert (second["vehicle"], second["passed"]) == ("quad2", False)
    alone = summarize_all({"quad": logs["quad1"]}, [bound, SignalCriterion("gap_m", 9.0, 1.0)])
    assert alone["passed"]  # alone there is no room between vehicles
    assert "runs" not in alone

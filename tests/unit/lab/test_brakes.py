"""``quadsim identify --brakes``: latency and deceleration of flown vehicles come back.

The vehicles here are closed forms: after a delay the speed falls on a straight line, or on an
exponential one.
"""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import Vec3, load, read_yaml
from quadsim.cli import main
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.rehearsal.rehearsal import TAKEOFF_S, load_rehearsal
from quadsim.hil.rehearsal.stand_in import StandIn, VehicleCommand
from quadsim.hil.rehearsal.vehicle_side import DEAD_RECKONING_S
from quadsim.lab.identify.brakes import (
    BrakeFlight,
    Brakes,
    find_stops,
    guard_text,
    lowered_speed_limit,
    measure_brakes,
)
from quadsim.wire.encode import Template

SPEEDS = (0.5, 1.0, 1.5, 2.0) * 3
LEG_S, REST_S = 4.0, 4.0
POSE_HZ, COMMAND_HZ = 100.0, 50.0
EAST = np.array((1.0, 0.0, 0.0))


def along(t_s, speed, latency_s, brake_mps2=np.inf, tau_s=0.0):
    """Way since a stop was commanded at 0, steady before; the integral of the speed.

    With ``tau_s`` the speed falls as exp(-t / tau_s) after the latency.
    """
    late_s = np.maximum(t_s - latency_s, 0.0)
    if tau_s:
        slowed = speed * tau_s * (1.0 - np.exp(-late_s / tau_s))
    else:
        braking_s = np.minimum(late_s, speed / brake_mps2)
        slowed = speed * braking_s - 0.5 * brake_mps2 * braking_s**2
    return speed * np.minimum(t_s, latency_s) + slowed


def flown(
    speeds: Sequence[float] = SPEEDS,
    latency_s: float = 0.3,
    brake_mps2: float = 3.0,
    tau_s: float = 0.0,
    noise_m: float = 0.002,
    jitter_s: float = 0.008,
    seed: int = 1,
    turned_deg: float = 0.0,
    ramp_s: float = 0.0,
) -> BrakeFlight:
    """Out and back, leg by leg, each of its own latency; stops between."""
    rng = np.random.default_rng(seed)
    pose_s, p_W, command_s, command_W = [], [], [], []
    begin_s, place, way = 0.0, np.zeros(3), EAST
    c, s = np.cos(np.radians(turned_deg)), np.sin(np.radians(turned_deg))
    for k, speed in enumerate(speeds):
        aim = way if k % 2 == 0 else -way
        t_s = np.arange(0.0, LEG_S + REST_S, 1.0 / POSE_HZ) + rng.uniform(0.0, 1.0 / POSE_HZ)
        x_m = along(t_s - LEG_S, speed, latency_s + jitter_s * rng.standard_normal(), brake_mps2,
                    tau_s) + speed * LEG_S  # fmt: skip
        pose_s.append(begin_s + t_s)
        p_W.append(place + np.outer(x_m, (c * aim[0] - s * aim[1], s * aim[0] + c * aim[1], 0.0)))
        place = p_W[-1][-1]
        sent_s = np.arange(0.0, LEG_S + REST_S, 1.0 / COMMAND_HZ)
        sent_s[sent_s >= LEG_S] += -(sent_s[sent_s >= LEG_S][0] - LEG_S)
        share = np.where(sent_s < LEG_S, 1.0, 0.0)
        if ramp_s:
            share = np.clip((LEG_S - sent_s) / ramp_s, 0.0, 1.0)
        command_s.append(begin_s + sent_s)
        command_W.append(np.outer(speed * share, aim))
        begin_s += LEG_S + REST_S
    p = np.concatenate(p_W)
    return BrakeFlight(
        "the flight",
        np.concatenate(pose_s),
        p + noise_m * rng.standard_normal(p.shape),
        np.concatenate(command_s),
        np.concatenate(command_W),
    )


@pytest.mark.parametrize("tau_s", [0.0, 0.25])
def test_the_way_of_a_stop_is_that_of_its_closed_form(tau_s):
    flight = flown(noise_m=0.0, jitter_s=0.0, tau_s=tau_s)
    stops = find_stops(flight)
    assert [stop.why_not for stop in stops] == [""] * len(SPEEDS)
    for stop, speed in zip(stops, SPEEDS, strict=True):
        expected = along(np.array(100.0), speed, 0.3, 3.0, tau_s)
        assert stop.speed_mps == pytest.approx(speed, rel=1e-6)
        # an exponential never stands: what is left when it is slower than 0.05 m/s
        assert stop.way_m == pytest.approx(expected, abs=1e-6 if not tau_s else 0.05 * tau_s)


@pytest.mark.parametrize(
    ("latency_s", "brake_mps2"), [(0.1, 6.0), (0.2, 1.5), (0.35, 3.5), (0.5, 2.0)]
)
def test_the_interval_holds_latency_and_deceleration_in_95_of_100_flights(latency_s, brake_mps2):
    flights = 60
    held = np.zeros(2, int)
    for seed in range(flights):
        found = measure_brakes(flown(latency_s=latency_s, brake_mps2=brake_mps2, seed=seed))
        held += (
            found.latency_s.low <= latency_s <= found.latency_s.high,
            found.brake_mps2.low <= brake_mps2 <= found.brake_mps2.high,
        )
        assert found.guard_latency_s > latency_s
        assert found.guard_brake_mps2 <= found.brake_mps2.low
    # fewer in one of a thousand cases
    assert held.min() >= stats.binom.ppf(1e-3, flights, 0.95)


def counted_and_measured(found: Brakes, **keys: float) -> list[tuple[float, float]]:
    return [
        (found.counted_m(speed), float(along(np.array(100.0), speed, **keys)))
        for speed in np.linspace(0.3, found.fastest_mps, 20)
    ]


@pytest.mark.parametrize("keys", [{"brake_mps2": 2.5}, {"tau_s": 0.35}])
def test_the_guard_counts_on_more_than_the_way_from_every_speed(keys):
    """Of a vehicle whose loop is linear too, whose way grows with the speed alone."""
    for seed in range(10):
        found = measure_brakes(flown(seed=seed, **keys))
        for counted_m, way_m in counted_and_measured(found, latency_s=0.3, **keys):
            assert counted_m > way_m
            # and not much more: 3 deviations of 8 ms, and what the slope leaves open
            assert counted_m < way_m + 0.12 * found.fastest_mps


def test_a_swing_beyond_the_place_counts():
    flight = flown(noise_m=0.0, jitter_s=0.0)
    stop = find_stops(flight)[3]
    late_s = flight.pose_s - stop.at_s
    swing = np.where((late_s > 0.9) & (late_s < 1.4), 0.2 * np.sin(np.pi * (late_s - 0.9) / 0.5), 0)
    flight = replace(flight, p_W=flight.p_W - np.outer(swing, EAST))  # the fourth leg goes west
    # the mean of 0.1 s about the top of a half sine of 0.5 s
    top_m = 0.2 * np.sin(0.1 * np.pi) / (0.1 * np.pi)
    assert find_stops(flight)[3].way_m == pytest.approx(stop.way_m + top_m, rel=0.02)


@pytest.mark.parametrize(
    ("flight", "words"),
    [
        (flown(SPEEDS[:5]), "5 stops can be used, of 5; allowed: at least 6"),
        (flown((1.0, 1.1) * 4), "all stops are from 1.00 to 1.10 m/s"),
        (flown((0.1, 0.2) * 4), "0 stops can be used, of 8; 8 x slower than 0.3 m/s"),
        (flown(ramp_s=1.0), "12 x the command did not fall at once"),
        (flown(brake_mps2=0.3), "did not stand before the next command"),
        (flown(turned_deg=90.0), "flew 90 degrees off the commands in 12 of 12 stops"),
        (flown(jitter_s=0.3, seed=2), "the stops differ too much"),
        (replace(flown(), pose_s=flown().pose_s + 1e6), "fewer than 8 poses"),
    ],
)
def test_a_flight_that_cannot_tell_is_refused(flight, words):
    with pytest.raises(InputError, match=words):
        measure_brakes(flight)


LINK_NS = 30_000_000


def flown_stand_in(speeds: Sequence[float]) -> tuple[BrakeFlight, np.ndarray]:
    """The rehearsals' vehicle, 30 ms away in both directions; (M, 4) times and places of it."""
    rehearsal = load_rehearsal("pillars", seed=1)
    vehicle = StandIn(rehearsal.scenario, rehearsal.params.motion_capture, DEAD_RECKONING_S)
    begin_ns, leg_ns, tick_ns = round(TAKEOFF_S * 1e9), 4_000_000_000, 20_000_000
    poses, commands, truth = [], [], []
    under_way: deque[tuple[int, Vec3]] = deque()
    while vehicle.stamp_ns < begin_ns + 2 * leg_ns * len(speeds):
        vehicle.tick()
        now_ns = vehicle.stamp_ns
        if now_ns % tick_ns:
            continue
        truth.append((now_ns * 1e-9, *vehicle.state["truth"][0]["p_W"]))
        if (said := vehicle.telemetry()) is not None:
            poses.append(((now_ns + LINK_NS) * 1e-9, *said.p_W))
        if now_ns >= begin_ns:
            leg, part = divmod((now_ns - begin_ns) // leg_ns, 2)
            asked = 0.0 if part else speeds[min(leg, len(speeds) - 1)] * (-1.0) ** leg
            commands.append((now_ns * 1e-9, asked, 0.0, 0.0))
            under_way.append((now_ns + LINK_NS, (asked, 0.0, 0.0)))
        while under_way and under_way[0][0] <= now_ns:
            vehicle.obey(VehicleCommand(now_ns, under_way.popleft()[1], 0.0))
    pose, command, true = np.array(poses), np.array(commands), np.array(truth)
    return BrakeFlight("it", pose[:, 0], pose[:, 1:], command[:, 0], command[:, 1:]), true


def test_the_guard_counts_on_more_than_the_true_ways_of_the_stand_in():
    """Attitude loops, motors and an estimator between command and motion."""
    flight, true = flown_stand_in((0.5, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0))
    found = measure_brakes(flight)
    assert len(found.used) == 8
    for stop in found.used:
        known_s = stop.at_s - LINK_NS * 1e-9  # when the pose was measured that comes at the stop
        begin_W = [np.interp(known_s, true[:, 0], true[:, i]) for i in (1, 2, 3)]
        braking = true[(true[:, 0] >= known_s) & (true[:, 0] <= stop.at_s + 3.9), 1:]
        way_m = float(np.linalg.norm(braking - begin_W, axis=1).max())
        assert stop.way_m == pytest.approx(way_m, abs=0.02)  # the estimate's error
        assert way_m < found.counted_m(stop.speed_mps) < way_m + 0.1


def test_the_file_keeps_what_was_not_measured(tmp_path):
    found = measure_brakes(flown())
    raw = read_yaml(find("guards", "default"))
    path = tmp_path / "mine.yaml"
    path.write_text(guard_text(found, raw, "default"))
    old, new = load(GuardParams, find("guards", "default")), load(GuardParams, path)
    assert new.vehicle.latency_s == found.guard_latency_s
    assert new.vehicle.brake_mps2 == found.guard_brake_mps2
    assert new.vehicle.measured_on == "12 stops from 0.50 to 2.00 m/s"
    # the flight says nothing of faster ones
    assert (
        new.limits.speed_max_mps == lowered_speed_limit(found, raw) == pytest.approx(2.0, abs=0.02)
    )
    assert replace(new.limits, speed_max_mps=4.0) == old.limits
    assert (new.sight, new.watch) == (old.sight, old.watch)
    assert replace(new.vehicle, **{
        key: getattr(old.vehicle, key) for key in ("latency_s", "brake_mps2", "measured_on")
    }) == old.vehicle  # fmt: skip
    slow = {"limits": {"speed_max_mps": 0.8}}
    assert lowered_speed_limit(found, slow) is None
    assert "speed_max_mps: 0.8\n" in guard_text(found, slow, "slow")


def record(flight: BrakeFlight, path, late_s: float = 0.04) -> None:
    """A bag of it: poses with stamps of another clock, logged as late as the link is."""
    rows = []
    for topic, kind, time_s, late, columns in (
        ("/tracker/quad/pose", "PoseStamped", flight.pose_s, late_s,
         {"p": flight.p_W, "q_xyzw": [0.0, 0.0, 0.0, 1.0]}),
        ("/quad/command_velocity/safe", "TwistStamped", flight.command_s, 0.0,
         {"v": flight.command_W}),
    ):  # fmt: skip
        type_name = f"geometry_msgs/msg/{kind}"
        stamp_ns = np.round((time_s + 500.0 - late) * 1e9).astype(np.int64)
        payloads = Template.of(type_name, "map").payloads(stamp_ns, **columns)
        rows += [(round((t + 7e8) * 1e9), topic, type_name, payload)
                 for t, payload in zip(time_s, payloads, strict=True)]  # fmt: skip
    with BagWriter(path, custom={"pose": "/tracker/quad/pose"}) as bag:
        for log_ns, topic, type_name, payload in sorted(rows):
            bag.add(topic, type_name, None, log_ns, payload)


def run(*args: str):
    return CliRunner().invoke(main.main, ["identify", "--brakes", "bag", *args])


def test_a_bag_becomes_a_guard_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flight = flown()
    record(flight, tmp_path / "bag")
    result = run("--output", "guard.yaml", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    found = measure_brakes(flight)
    latency, brake = said["figures"]
    assert latency["value"] == pytest.approx(found.latency_s.value, abs=1e-6)
    assert brake["low"] == pytest.approx(found.brake_mps2.low, rel=1e-4)
    assert load(GuardParams, tmp_path / "guard.yaml").vehicle.latency_s == latency["guard"]
    named = ("--command", "/quad/command_velocity/safe", "--odometry", "/tracker/quad/pose")
    shown = run("--output", "two.yaml", *named)
    assert shown.exit_code == 0, shown.output
    assert "file: two.yaml" in shown.stdout
    assert (tmp_path / "two.yaml").read_text() == (tmp_path / "guard.yaml").read_text()

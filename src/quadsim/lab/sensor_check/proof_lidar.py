"""Experiments for a lidar: every figure of its file, one at a time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.records import KINEMATICS
from quadsim.lab.sensor_check.bench import Truth, alone, at_rest
from quadsim.lab.sensor_check.figures import Figure, trials_for_deviation, trials_for_share
from quadsim.lab.sensor_check.proof import Proof
from quadsim.lab.sensor_check.proof_echo import LIMITS, above, plan_echo
from quadsim.sensors.lidar import Scan, SimulatedLidar
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.floating[Any]]

#: Rays of the experiments' scans; all look the same way.
RAYS = 512

#: Steps of the truth where times are measured.
TRUTH_NS = 100_000

#: Scans of a run in which times are measured.
SCANS = 10


class LidarBench:
    """A lidar over flat ground.

    Args:
        environment: the world it measures.
        seed: of all its streams.
    """

    def __init__(self, environment: EnvironmentParams, seed: int = 1) -> None:
        self.environment, self._seed = environment, seed

    def scans(
        self, params: Any, experiment: str, count: int, truth: Truth, apart_ns: int = 0
    ) -> list[tuple[int, Scan]]:
        """Switch a lidar on once and take what it publishes.

        Args:
            params: of the lidar.
            experiment: name of its noise.
            count: of scans that are taken, lost ones with them.
            truth: where it is; it does not move.
            apart_ns: between two truths; 0: the period.

        Returns:
            Time of publication in ns, and scan.
        """
        lidar = SimulatedLidar(params, self.environment, self._seed, f"bench/{experiment}")
        record: NDArray[np.record] = np.zeros(1, KINEMATICS)
        record[0] = truth.now[0]
        step_ns = apart_ns or lidar.period_ns
        shown = record.view(np.recarray)[0]
        found = []
        # the first truth only begins; then the last scan ends and comes through
        last_ns = (count + 1) * lidar.period_ns + round(params.latency_s * 1e9) + step_ns
        for now_ns in range(0, last_ns + step_ns, step_ns):
            shown.stamp_ns = now_ns
            scan = lidar.measure(shown)
            while scan is not None:
                found.append((now_ns, scan))
                scan = lidar.published(now_ns)
        return found[:count] if params.loss_probability == 0.0 else found


class _Lidar:
    """The lidar on its bench: all rays straight down, at once."""

    def __init__(self, proof: Proof, bench: LidarBench) -> None:
        self.proof, self.bench = proof, bench

    def alone(self, *names: str, **others: Any) -> Any:
        """Of rays that all look down."""
        down = {
            "rotation_deg": (0.0, 90.0, 0.0),
            "columns": RAYS,
            "azimuth_min_deg": 0.0,
            "azimuth_max_deg": 1e-9,
        }
        return alone(self.proof.params, *LIMITS, *names, **{**down, **others})

    def readings(self, params: Any, name: str, count: int, truth: Truth) -> Array:
        """After one switch-on."""
        scans = self.bench.scans(params, name, math.ceil(count / RAYS), truth)
        return np.asarray(np.concatenate([scan.ranges[0] for _, scan in scans])[:count])

    def starts(self, params: Any, name: str, count: int, truth: Truth) -> Array:
        """Each after a switch-on of its own."""
        found = [
            self.bench.scans(params, f"{name} {k}", 1, truth)[0][1].ranges[0, 0]
            for k in range(count)
        ]
        return np.asarray(found)


def plan(proof: Proof, bench: LidarBench) -> None:
    """Plan all that can be measured of a lidar."""
    lidar = _Lidar(proof, bench)
    _timing(proof, lidar)
    plan_echo(proof, lidar)
    _pattern(proof, lidar)
    _intensity(proof, lidar)


def _timing(proof: Proof, lidar: _Lidar) -> None:
    params = proof.params
    period_ns = round(1e9 / params.rate_hz)
    pattern = ("spinning", "columns", "azimuth_min_deg", "azimuth_max_deg")
    high = above(5.0)

    def rate() -> list[Figure]:
        scans = lidar.bench.scans(alone(params), "rate", SCANS, high)
        found = 1e9 * (len(scans) - 1) / (scans[-1][1].stamp_ns - scans[0][1].stamp_ns)
        return [proof.said("rate_hz").exactly(found, 0.5e-9 * params.rate_hz**2)]

    def latency() -> list[Figure]:
        timed = alone(params, "latency_s", *pattern)
        scans = lidar.bench.scans(timed, "latency", SCANS, high, TRUTH_NS)
        last_ray_ns = round(1e9 * timed.offsets_s()[-1])
        late_s = [1e-9 * (now_ns - scan.stamp_ns - last_ray_ns) for now_ns, scan in scans]
        # it is published with the first truth after it is due
        found_s = min(late_s)
        tolerance_s = 1e-9 * TRUTH_NS
        return [proof.said("latency_s").exactly(found_s, tolerance_s)]

    def jitter(confidence: float) -> list[Figure]:
        count = trials_for_deviation(confidence)
        scans = lidar.bench.scans(alone(params, "stamp_jitter_s"), "jitter", count, high)
        stamps = np.array([scan.stamp_ns for _, scan in scans])
        off_ns = stamps - period_ns * np.round(stamps / period_ns)
        return [proof.said("stamp_jitter_s", confidence).deviation(1e-9 * off_ns)]

    def loss(confidence: float) -> list[Figure]:
        count = trials_for_share(params.loss_probability, confidence)
        single = alone(
            params, "loss_probability", columns=1, azimuth_min_deg=0.0, azimuth_max_deg=0.0
        )
        arrived = len(lidar.bench.scans(single, "loss", count, high))
        return [proof.said("loss_probability", confidence).share(count - arrived, count)]

    proof.certain(["rate_hz"], rate)
    proof.certain(["latency_s", "spinning"], latency)
    if params.stamp_jitter_s > 0.0:
        proof.add(["stamp_jitter_s"], 1, jitter)
    if params.loss_probability > 0.0:
        proof.add(["loss_probability"], 1, loss)


def _pattern(proof: Proof, lidar: _Lidar) -> None:
    """Numbers of rays, and the angles of the outermost: by the distances that they read."""
    azimuths = ("columns", "azimuth_min_deg", "azimuth_max_deg")
    elevations = ("channels", "elevation_min_deg", "elevation_max_deg")
    far = {"range_max_m": 1e4}

    def numbers() -> list[Figure]:
        params = alone(proof.params, *azimuths, *elevations, **far)
        ranges = lidar.bench.scans(params, "pattern", 1, above(5.0))[0][1].ranges
        counts = zip(("channels", "columns"), ranges.shape, strict=True)
        return [proof.said(name).exactly(count) for name, count in counts]

    def azimuth(name: str, column: int) -> list[Figure]:
        # on its side, turned so that a direction 30 degrees beside the ray points down
        wanted_deg = proof.of(name)
        params = alone(proof.params, *azimuths, **far)
        found = wanted_deg + 30.0 - _angle_from_down(lidar, params, wanted_deg + 30.0, 0, column)
        return [proof.said(name).exactly(found, 1e-4)]

    def elevation(name: str, channel: int) -> list[Figure]:
        wanted_deg = proof.of(name)
        params = alone(
            proof.params, *elevations, columns=1, azimuth_min_deg=0.0, azimuth_max_deg=0.0, **far
        )
        # nose down by 60 degrees: the ray is 30 degrees and its elevation off the vertical
        half = math.radians(30.0)
        q_WB = (math.cos(half), 0.0, math.sin(half), 0.0)
        truth = at_rest(q_WB, p_W=(0.0, 0.0, 10.0))
        reading = float(lidar.bench.scans(params, name, 1, truth)[0][1].ranges[channel, 0])
        found = math.degrees(math.acos(min(1.0, 10.0 / reading))) - 30.0
        return [proof.said(name).exactly(found, 1e-4 * max(1.0, abs(wanted_deg)))]

    if proof.is_set(*azimuths, *elevations):
        proof.certain(["columns", "channels"], numbers)
    for name, column in (("azimuth_min_deg", 0), ("azimuth_max_deg", -1)):
        if proof.is_set(name):
            proof.certain([name], partial(azimuth, name, column))
    for name, channel in (("elevation_min_deg", 0), ("elevation_max_deg", -1)):
        if proof.is_set(name):
            proof.certain([name], partial(elevation, name, channel))


def _angle_from_down(
    lidar: _Lidar, params: Any, down_deg: float, channel: int, column: int
) -> float:
    """Degrees between a ray and the vertical, with the azimuth ``down_deg`` pointing down.

    The vehicle is rolled onto its side, so that its x-y plane is upright, after a turn about its
    own z that brings the azimuth to where y was.
    """
    upright = Rotation.from_euler("x", -90.0, degrees=True)
    turned = upright * Rotation.from_euler("z", 90.0 - down_deg, degrees=True)
    x, y, z, w = turned.as_quat()
    truth = at_rest((w, x, y, z), p_W=(0.0, 0.0, 10.0))
    reading = float(lidar.bench.scans(params, "azimuth", 1, truth)[0][1].ranges[channel, column])
    return math.degrees(math.acos(min(1.0, 10.0 / reading)))


def _intensity(proof: Proof, lidar: _Lidar) -> None:
    """What a surface sends back that is hit along its normal."""
    names = ("intensity", "reflectivity")

    def measure() -> list[Figure]:
        params = lidar.alone(*names)
        scan = lidar.bench.scans(params, "intensity", 1, above(0.5 * sum(map(proof.of, LIMITS))))[
            0
        ][1]
        return [proof.said("reflectivity").exactly(scan.intensities[0, 0] / 100.0, 1e-6)]

    if proof.of("intensity"):
        proof.certain(names, measure)

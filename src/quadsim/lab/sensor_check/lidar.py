"""A lidar on its bench: echoes as of a range finder, and the pattern of its rays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.records import KINEMATICS
from quadsim.lab.sensor_check.bench import Bench, Truth, above, alone, truth_at_rest
from quadsim.lab.sensor_check.echo import EchoRig
from quadsim.lab.sensor_check.experiments import (
    Array,
    Experiment,
    Figures,
    Probe,
    certain,
    experiment_of,
)
from quadsim.sensors.lidar import Scan, SimulatedLidar
from quadsim.world.environment import EnvironmentParams

#: Rays of the experiments' scans; all look the same way.
RAYS = 512

#: Steps of the truth where times are measured.
TRUTH_NS = 100_000

AZIMUTHS = ("columns", "azimuth_min_deg", "azimuth_max_deg")
ELEVATIONS = ("channels", "elevation_min_deg", "elevation_max_deg")
ONE_COLUMN = {"columns": 1, "azimuth_min_deg": 0.0, "azimuth_max_deg": 0.0}


class LidarBench(Bench):
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


class LidarRig(EchoRig):
    """A lidar all of whose rays look straight down, at once."""

    bench: LidarBench
    rounding = 1e-6
    given: ClassVar[dict[str, Any]] = {
        "rotation_deg": (0.0, 90.0, 0.0),
        "columns": RAYS,
        "azimuth_min_deg": 0.0,
        "azimuth_max_deg": 1e-9,
    }
    rate_periods = 9
    timed_by = ("spinning",)
    clock_s = 1e-9 * TRUTH_NS

    def probes(self, name: str) -> tuple[Probe, ...]:
        """As of all that hears echoes, and the intensity."""
        if name == "reflectivity":
            return (Probe(above(self.height_m(0.5)), keeps=("intensity",), proves=("intensity",)),)
        return super().probes(name)

    def readings(
        self, name: str, count: int, probe: Probe | None = None, dt_s: float | None = None
    ) -> Array:
        """Of as many scans as are needed, after one switch-on."""
        probe = probe or self.probes(name)[0]
        truth = probe.truth or truth_at_rest()
        scans = self.bench.scans(self.device(name, probe), name, math.ceil(count / RAYS), truth)
        if name == "reflectivity":
            return np.array([[scans[0][1].intensities[0, 0] / 100.0]])
        return probe.seen(np.concatenate([scan.ranges[0] for _, scan in scans])[:count, None])

    def starts(self, name: str, count: int) -> Array:
        """Each after a switch-on of its own."""
        (probe,) = self.probes(name)
        params, truth = self.device(name, probe), probe.truth or truth_at_rest()
        first = [self.bench.scans(params, f"{name} {k}", 1, truth)[0][1] for k in range(count)]
        return probe.seen(np.array([[scan.ranges[0, 0]] for scan in first]))

    def deliveries(self, name: str, count: int) -> tuple[Array, Array, Array]:
        """Of scans of one column; those that are lost stand at the end."""
        params, apart_ns, last_ray_ns = alone(self.params, name, **ONE_COLUMN), 0, 0
        if name == "latency_s":
            params, apart_ns = alone(self.params, name, "spinning", *AZIMUTHS), TRUTH_NS
            last_ray_ns = round(1e9 * params.offsets_s()[-1])
        scans = self.bench.scans(params, name, count, above(5.0), apart_ns)
        stamps_ns = np.array([scan.stamp_ns for _, scan in scans])
        period_ns = round(1e9 / params.rate_hz)
        arrivals_ns = np.array([now_ns - last_ray_ns for now_ns, _ in scans])
        lost = np.full(count - len(scans), -1)
        return (
            period_ns * np.round(stamps_ns / period_ns),
            stamps_ns,
            np.concatenate([arrivals_ns, lost]),
        )

    def more(self) -> Iterator[Experiment]:
        """What echoes have, and the pattern: by the distances that the outermost rays read."""
        yield from super().more()
        if self.of("intensity"):
            yield from experiment_of(self, "reflectivity", "constant")
        if self.is_set(*AZIMUTHS, *ELEVATIONS):
            yield certain(("columns", "channels"), self._numbers)
        for measure, names in ((self._azimuth, AZIMUTHS), (self._elevation, ELEVATIONS)):
            for name, ray in ((names[1], 0), (names[2], -1)):
                if self.is_set(name):
                    yield certain((name,), partial(measure, name, ray))

    def _scan(self, name: str, truth: Truth, *names: str, **others: Any) -> Any:
        """(channels, columns) of distances."""
        params = alone(self.params, *names, range_max_m=1e4, **others)
        return self.bench.scans(params, name, 1, truth)[0][1].ranges

    def _numbers(self) -> Figures:
        shape = self._scan("pattern", above(5.0), *AZIMUTHS, *ELEVATIONS).shape
        counts = zip(("channels", "columns"), shape, strict=True)
        return [self.specified(name).exactly(count) for name, count in counts]

    def _azimuth(self, name: str, column: int) -> Figures:
        """On its side, turned so that a direction 30 degrees beside the ray points down."""
        down_deg = self.of(name) + 30.0
        upright = Rotation.from_euler("x", -90.0, degrees=True)
        turn = upright * Rotation.from_euler("z", 90.0 - down_deg, degrees=True)
        truth = truth_at_rest(np.roll(turn.as_quat(), 1), p_W=(0.0, 0.0, 10.0))
        ranges = self._scan("azimuth", truth, *AZIMUTHS)
        found = down_deg - _off_vertical_deg(ranges[0, column])
        return [self.specified(name).exactly(found, 1e-4)]

    def _elevation(self, name: str, channel: int) -> Figures:
        """Nose down by 60 degrees: the ray is 30 degrees and its elevation off the vertical."""
        half = math.radians(30.0)
        truth = truth_at_rest((math.cos(half), 0.0, math.sin(half), 0.0), p_W=(0.0, 0.0, 10.0))
        ranges = self._scan(name, truth, *ELEVATIONS, **ONE_COLUMN)
        found = _off_vertical_deg(ranges[channel, 0]) - 30.0
        return [self.specified(name).exactly(found, 1e-4 * max(1.0, abs(self.of(name))))]


def _off_vertical_deg(reading_m: float) -> float:
    """Angle between a ray from 10 m and the vertical."""
    return math.degrees(math.acos(min(1.0, 10.0 / float(reading_m))))

"""What hears echoes, over flat ground: range finder and lidar, and what they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.records import KINEMATICS
from quadsim.lab.sensor_check.bench import Bench, Truth, above, alone, truth_at_rest
from quadsim.lab.sensor_check.experiments import (
    Array,
    Experiment,
    Figures,
    Probe,
    Rig,
    certain,
    experiment_of,
)
from quadsim.lab.sensor_check.figures import trials_for_squares
from quadsim.lab.sensor_check.rigs import scatter
from quadsim.sensors.lidar import Scan, SimulatedLidar
from quadsim.world.environment import EnvironmentParams


class LidarBench(Bench):
    """A lidar over flat ground."""

    def __init__(self, environment: EnvironmentParams, seed: int = 1) -> None:
        self.environment, self._seed = environment, seed

    def scans(
        self, params: Any, experiment: str, count: int, truth: Truth, apart_ns: int = 0
    ) -> list[tuple[int, Scan]]:
        """Switch a lidar on once and take what it publishes.

        Args:
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


#: Where a surface is hit aslant, the ray may be longer than the range.
FAR = {"range_max_m": 1e3}

#: Rays of the experiments' scans; all look the same way.
RAYS = 512

#: Steps of the truth where times are measured.
TRUTH_NS = 100_000

AZIMUTHS = ("columns", "azimuth_min_deg", "azimuth_max_deg")
ELEVATIONS = ("channels", "elevation_min_deg", "elevation_max_deg")
ONE_COLUMN = {"columns": 1, "azimuth_min_deg": 0.0, "azimuth_max_deg": 0.0}

#: Part of what the largest incidence adds to the dropouts at the tilt that is shown.
NEARLY_ALL = 0.98


def turning_point(has_turned: Callable[[float], bool], low: float, high: float) -> float:
    """Where a property changes from false to true, to 1e-9 of the interval; an end if nowhere."""
    for _ in range(31):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if has_turned(middle) else (middle, high)
    return 0.5 * (low + high)


class EchoRig(Rig):
    """A device of rays that look straight down."""

    field = "range_m"
    rounding = 1e-9
    always = ("range_min_m", "range_max_m")

    def height_m(self, part: float) -> float:
        """A height that lies so far into the range."""
        low_m, high_m = self.of("range_min_m"), self.of("range_max_m")
        return float(low_m + part * (high_m - low_m))

    def probes(self, name: str) -> tuple[Probe, ...]:
        """By name; what is not named shows in the middle of the range."""
        if name in ("position_B_m", "rotation_deg"):
            return ()
        middle_m, far_m, step_m = self.height_m(0.5), self.height_m(0.8), self.of("step_m")
        edge = math.cos(math.radians(self.of("incidence_max_deg")))
        tilt_deg = math.degrees(math.acos(edge + (1.0 - NEARLY_ALL) * (1.0 - edge)))
        # near, where a reading (of a lidar, float32) has the most digits behind the point
        near_m = self.of("range_min_m") + 20.0 * step_m
        probes = {
            "noise_share": Probe(above(far_m), far_m, far_m),
            "scale_sigma": Probe(above(middle_m), middle_m, middle_m),
            "step_m": Probe(above(near_m), others={"noise_sigma_m": 1.5 * step_m}),
            "dropout_probability": Probe(above(self.height_m(0.1))),
            "grazing_dropout_probability": Probe(
                above(1.0, tilt_deg), gain=NEARLY_ALL, keeps=("incidence_max_deg",), others=FAR
            ),
        }
        return (probes.get(name, Probe(above(middle_m), middle_m)),)

    def more(self) -> Iterator[Experiment]:
        """Where readings turn from -inf to a number, to +inf, and the tilt without an echo."""
        turns: dict[str, Callable[[float], bool]] = {
            "range_min_m": lambda found: found > -math.inf,
            "range_max_m": lambda found: found == math.inf,
            "incidence_max_deg": math.isinf,
        }
        for name, has_turned in turns.items():
            if name != "incidence_max_deg" or self.is_set(name):
                yield certain((name,), partial(self._turns, name, has_turned))

    def _turns(self, name: str, has_turned: Callable[[float], bool]) -> Figures:
        """The height, or the tilt, at which the readings change."""
        stated, tilts = self.of(name), name == "incidence_max_deg"

        def is_beyond(value: float) -> bool:
            truth = above(1.0, value) if tilts else above(value)
            probe = Probe(truth, others=FAR if tilts else {})
            return has_turned(float(self.readings(name, 1, probe)[0, 0]))

        high = min(1.5 * stated, 89.9) if tilts else 1.5 * stated
        found = turning_point(is_beyond, 0.5 * stated, high)
        return [self.specified(name).exactly(found, 1e-6 * stated)]


class RangefinderRig(EchoRig):
    """A range finder, which has a cone and a place."""

    kind = "rangefinder"

    def probes(self, name: str) -> tuple[Probe, ...]:
        """As of all that hears echoes, and the place."""
        if name != "position_B_m":
            return super().probes(name)
        # tilted by 45 degrees about x: range = (10 + y / sqrt(2)) sqrt(2); about y it lifts -x
        root, place = 10.0 * math.sqrt(2.0), np.diag(self.of("position_B_m"))
        shown = (
            (above(10.0, 45.0, 90.0), root, -1.0),
            (above(10.0, 45.0, 0.0), root, 1.0),
            (above(10.0), 10.0, 1.0),
        )
        return tuple(
            Probe(truth, ideal, gain, (0,), (i,), others={name: tuple(place[i].tolist()), **FAR})
            for i, (truth, ideal, gain) in enumerate(shown)
        )

    def more(self) -> Iterator[Experiment]:
        """What echoes have, the width of the cone, and what messages say."""
        yield from super().more()
        if self.of("rays") > 1:
            yield certain(("field_of_view_deg", "rays"), self._beam)
        names = ("noise_sigma_m", "noise_share", "turn_on_sigma_m", "scale_sigma", "step_m")
        if self.is_set(*names):
            yield Experiment(("covariance",), 1, partial(self._covariance, names))

    def _beam(self) -> Figures:
        """Tilted beyond the cone's half width, its lowest edge is nearest."""
        width = "field_of_view_deg"
        tilt_deg = 0.5 * self.of(width) + 10.0
        params = self.alone(width, "rays", **FAR)
        nearest = min(
            float(self.bench.run(params, width, 1, above(1.0, tilt_deg, turn_deg))["range_m"][0])
            for turn_deg in np.arange(0.0, 360.0, 0.5).tolist()
        )
        found = 2.0 * (tilt_deg - math.degrees(math.acos(1.0 / nearest)))
        # the ray at the edge is within a quarter of a degree of the plane of the tilt
        return [self.specified(width).exactly(found, 1e-3 * self.of(width))]

    def _covariance(self, names: tuple[str, ...], confidence: float) -> Figures:
        """What messages say against what is wrong, one reading of each of many switch-ons."""
        params, count = self.alone(*names), trials_for_squares(confidence)
        # heights over a count: a device that rounds coarsely reads one of them too high or low
        steps = np.linspace(-0.5, 0.5, count, endpoint=False)
        heights_m = self.height_m(0.5) + params.step_m * steps
        truths = [above(height_m) for height_m in heights_m.tolist()]
        samples = self.bench.switch_on(params, "covariance", count, truths)[:, 0]
        errors_m = samples["range_m"] - heights_m
        return scatter(confidence, "", errors_m**2 / samples["variance_m2"])


class LidarRig(EchoRig):
    """A lidar all of whose rays look straight down, at once."""

    kind = "lidar"
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
        """On its side, rotated so that a direction 30 degrees off the ray points down."""
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

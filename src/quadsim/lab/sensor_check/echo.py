"""What hears echoes, over flat ground: what range finder and lidar share, and the range finder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from quadsim.lab.sensor_check.bench import Truth, above
from quadsim.lab.sensor_check.experiments import Experiment, Probe, Rig, certain
from quadsim.lab.sensor_check.figures import MeasuredFigure, trials_for_squares
from quadsim.lab.sensor_check.rigs import scatter

#: Where a surface is hit aslant, the ray may be longer than the range.
FAR = {"range_max_m": 1e3}

#: Part of what the largest incidence adds to the dropouts at the tilt that is shown.
NEARLY_ALL = 0.98


def turning_point(is_above: Callable[[float], bool], low: float, high: float) -> float:
    """Where a property changes from false to true, to 1e-9 of the interval."""
    for _ in range(31):
        middle = 0.5 * (low + high)
        if is_above(middle):
            high = middle
        else:
            low = middle
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
        """As of :class:`Rig`."""
        middle_m, far_m = self.height_m(0.5), self.height_m(0.8)
        if name == "noise_share":
            return (Probe(above(far_m), far_m, far_m),)
        if name == "scale_sigma":
            return (Probe(above(middle_m), middle_m, middle_m),)
        if name == "step_m":
            # near, where a reading (of a lidar, float32) has the most digits behind the point
            near_m = self.of("range_min_m") + 20.0 * self.of(name)
            return (Probe(above(near_m), others={"noise_sigma_m": 1.5 * self.of(name)}),)
        if name == "dropout_probability":
            return (Probe(above(self.height_m(0.1))),)
        if name == "grazing_dropout_probability":
            edge = math.cos(math.radians(self.of("incidence_max_deg")))
            tilt_deg = math.degrees(math.acos(edge + (1.0 - NEARLY_ALL) * (1.0 - edge)))
            keeps = ("incidence_max_deg",)
            return (Probe(above(1.0, tilt_deg), gain=NEARLY_ALL, keeps=keeps, others=FAR),)
        if name in ("position_B_m", "rotation_deg"):
            return ()
        return (Probe(above(middle_m), middle_m),)

    def more(self) -> Iterator[Experiment]:
        """Where readings turn from -inf to a number, to +inf, and the tilt without an echo."""
        yield from self._turns("range_min_m", lambda found: found > -math.inf, 1.0, 0.5)
        yield from self._turns("range_max_m", lambda found: found == math.inf, 1.0, 0.5)
        if self.is_set("incidence_max_deg"):
            yield from self._turns("incidence_max_deg", math.isinf, 0.0, 0.5)

    def _turns(
        self, name: str, has_turned: Callable[[float], bool], by_height: float, part: float
    ) -> Iterator[Experiment]:
        """The height, or the tilt, at which the readings change."""
        stated = self.of(name)

        def reading(value: float) -> float:
            truth = above(value) if by_height else above(1.0, value)
            probe = Probe(truth, others={} if by_height else FAR)
            return float(self.readings(name, probe, 1)[0, 0])

        def measure() -> list[MeasuredFigure]:
            high = (1.0 + part) * stated
            found = turning_point(
                lambda value: has_turned(reading(value)),
                (1.0 - part) * stated,
                high if by_height else min(high, 89.9),
            )
            return [self.specified(name).exactly(found, 1e-6 * stated)]

        yield certain((name,), measure)


class RangefinderRig(EchoRig):
    """A range finder, which has a cone and a place."""

    def probes(self, name: str) -> tuple[Probe, ...]:
        """As of :class:`Rig`."""
        if name != "position_B_m":
            return super().probes(name)
        # tilted by 45 degrees about x: range = (10 + y / sqrt(2)) sqrt(2); about y it lifts -x
        root = 10.0 * math.sqrt(2.0)
        shown = (
            (above(10.0, 45.0, 90.0), root, -1.0),
            (above(10.0, 45.0, 0.0), root, 1.0),
            (above(10.0), 10.0, 1.0),
        )
        return tuple(
            Probe(truth, ideal, gain, (0,), (i,), others={name: self._only(i), **FAR})
            for i, (truth, ideal, gain) in enumerate(shown)
        )

    def _only(self, axis: int) -> tuple[float, ...]:
        """The place along one axis."""
        place = self.of("position_B_m")
        return tuple(place[i] if i == axis else 0.0 for i in range(3))

    def more(self) -> Iterator[Experiment]:
        """What echoes have, the width of the cone, and what messages say."""
        yield from super().more()
        if self.of("rays") > 1:
            yield certain(("field_of_view_deg", "rays"), self._beam)
        names = ("noise_sigma_m", "noise_share", "turn_on_sigma_m", "scale_sigma", "step_m")
        if self.is_set(*names):
            yield Experiment(
                ("covariance",), 1, lambda confidence: self._covariance(names, confidence)
            )

    def _beam(self) -> list[MeasuredFigure]:
        """Tilted beyond the cone's half width, its lowest edge is nearest."""
        width = "field_of_view_deg"
        tilt_deg = 0.5 * self.of(width) + 10.0
        params = self.alone(width, "rays", **FAR)

        def reading(turn_deg: float) -> float:
            truth: Truth = above(1.0, tilt_deg, turn_deg)
            return float(self.bench.run(params, width, 1, truth)["range_m"][0])

        nearest = min(reading(turn_deg) for turn_deg in np.arange(0.0, 360.0, 0.5).tolist())
        found = 2.0 * (tilt_deg - math.degrees(math.acos(1.0 / nearest)))
        # the ray at the edge is within a quarter of a degree of the plane of the tilt
        return [self.specified(width).exactly(found, 1e-3 * self.of(width))]

    def _covariance(self, names: tuple[str, ...], confidence: float) -> list[MeasuredFigure]:
        """What messages say against what is wrong, one reading of each of many switch-ons."""
        params, count = self.alone(*names), trials_for_squares(confidence)
        # heights over a count: a device that rounds coarsely reads one of them too high or low
        steps = np.linspace(-0.5, 0.5, count, endpoint=False)
        heights_m: NDArray[np.float64] = self.height_m(0.5) + params.step_m * steps
        truths = [above(float(height_m)) for height_m in heights_m]
        samples = self.bench.switch_on(params, "covariance", count, truths)[:, 0]
        return scatter(
            confidence, "", (samples["range_m"] - heights_m) ** 2 / samples["variance_m2"]
        )

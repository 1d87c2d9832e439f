"""Parameters of the estimator's node, and which of the filter's may change in flight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, flatten, unflatten
from quadsim.estimation import ESTIMATORS
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.geometry.geodesy import Datum

#: Estimators that may run beside the vehicle's own.
BESIDE = tuple(name for name in ESTIMATORS if name not in ("blind", "smoother"))
#: Parameters that hold from the next sample on; all others are part of what the estimate rests on.
SAFE = ("noise.", "gate.", "fusion.")
RESTART = "needs a restart of the estimator (service reset)"


@dataclass(frozen=True)
class FrameParams:
    """Frames that messages must be in; with several vehicles a name without / gets the prefix."""

    imu: Annotated[str, Spec("of imu/data_raw")] = "imu_link"
    magnetic_field: Annotated[str, Spec("of imu/mag")] = "imu_link"
    gnss_velocity: Annotated[str, Spec("of gps/vel; always without the prefix")] = "map"
    range: Annotated[str, Spec("of range/down")] = "range_link"
    external_pose: Annotated[str, Spec("of external/*; always without the prefix")] = "map"


@dataclass(frozen=True)
class EstimatorNodeParams:
    """Where ``map`` is, for the estimator, and what else it listens to; see also the filter's."""

    datum_source: Annotated[
        str, Spec("who says where map is", choices=("topic", "parameter", "fix"))
    ] = "topic"
    datum: Datum = field(default_factory=Datum)
    frames: FrameParams = field(default_factory=FrameParams)
    external_pose_type: Annotated[
        str,
        Spec(
            "motion capture: external/pose_stamped, external/pose or external/odom",
            choices=("none", "pose", "pose_with_covariance", "odometry"),
        ),
    ] = "none"
    installation: Annotated[
        str,
        Spec(
            "unknown: what keeps its default (field, lever arm, mounts) is assumed, and said",
            choices=("known", "unknown"),
        ),
    ] = "unknown"
    sampled_rate_hz: Annotated[
        float,
        Spec("rate of odometry/sampled, at most the IMU's; 0: there is none", "Hz", ge=0.0, le=2e3),
    ] = 0.0
    imu_timeout_s: Annotated[
        float, Spec("IMU silent for so long: say so", "s", gt=0.0, le=60.0)
    ] = 0.5


def when(name: str) -> str:
    """When a parameter of the filter may change, in words."""
    if name.startswith(SAFE):
        return "may change in flight, from the next sample on"
    return "may change while the filter does not run"


def when_of_node(name: str) -> str:
    """The same of the node's own."""
    return "may change while the filter does not run" if name.startswith("datum.") else ""


class LiveParams:
    """Takes changes of parameters, all of one request or none.

    Args:
        params: of the filter, as it was started.
        node_params: of the node.
        running: whether the filter runs.
        apply: takes the filter's parameters.
        move: takes another datum.
    """

    def __init__(
        self,
        params: EstimatorParams,
        node_params: EstimatorNodeParams,
        running: Callable[[], bool],
        apply: Callable[[EstimatorParams], None],
        move: Callable[[Datum], None],
    ) -> None:
        self._values: dict[str, Any] = dict(flatten(params))
        self._datum: dict[str, Any] = {
            f"datum.{name}": value for name, value in flatten(node_params.datum).items()
        }
        self._datum_counts = node_params.datum_source == "parameter"
        self._running = running
        self._apply = apply
        self._move = move

    def take(self, given: dict[str, Any], reset: bool = False) -> Callable[[], None]:
        """Check parameters, and give what lets them hold from then on.

        Args:
            given: name to value; names of others are ignored.
            reset: whether the filter starts anew right after.

        Raises:
            InputError: one is refused.
        """
        changed = {name: value for name, value in given.items() if name in self._values}
        datum = {name: value for name, value in given.items() if name in self._datum}
        if self._running() and not reset:
            for name in (*changed, *datum):
                if not name.startswith(SAFE):
                    raise InputError(f"{name}: {RESTART}")
        if datum and not self._datum_counts:
            raise InputError(f"{next(iter(datum))}: counts only with datum_source: parameter")
        values, place = self._values | changed, self._datum | datum
        params = unflatten(EstimatorParams, values, "parameters")
        moved = unflatten(
            Datum, {name.removeprefix("datum."): x for name, x in place.items()}, "parameters"
        )

        def apply() -> None:
            if changed:
                self._values = values
                self._apply(params)
            if datum:
                self._datum = place
                self._move(moved)

        return apply

"""Parameters of the estimator's node, and which of the filter's may change in flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.estimation import ESTIMATORS
from quadsim.geometry.geodesy import Datum

#: Estimators that may run next to the vehicle's own.
BESIDE = tuple(name for name in ESTIMATORS if name not in ("blind", "smoother"))


def check_beside(names: Iterable[str], where: str) -> None:
    """Refuse extra estimators that are not known, or run anyway.

    Raises:
        InputError: naming ``where``, the name and those that are known.
    """
    for name in names:
        if name not in BESIDE and ":" not in name:
            raise InputError(
                f"{where}: {name!r}; known: {', '.join(BESIDE)}, module:Class (blind always runs)"
            )


#: Parameters that hold from the next sample on; all others are part of what the estimate rests on.
SAFE = ("noise.", "gate.", "fusion.")


@dataclass(frozen=True)
class FrameParams:
    """Frames that messages must be in; with several vehicles a name without / gets the prefix."""

    imu: Annotated[str, Spec("of imu/data_raw")] = "imu_link"
    imu_1: Annotated[str, Spec("of imu_1/data_raw")] = "imu_1_link"
    magnetic_field: Annotated[str, Spec("of imu/mag")] = "imu_link"
    gnss_velocity: Annotated[str, Spec("of gps/vel; always without the prefix")] = "map"
    range: Annotated[str, Spec("of range/down")] = "range_link"
    range_1: Annotated[str, Spec("of range_1/down")] = "range_1_link"
    optical_flow: Annotated[str, Spec("of flow/down")] = "flow_link"
    external_pose: Annotated[str, Spec("of external poses; always without the prefix")] = "map"
    external_velocity: Annotated[str, Spec("of external/velocity")] = "base_link"


@dataclass(frozen=True)
class EstimatorNodeParams:
    """Where ``map`` is, for the estimator, and what else it listens to; see also the filter's."""

    datum_source: Annotated[
        str, Spec("where map is: from", choices=("topic", "parameter", "fix"))
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
            "unknown: what keeps its default (field, lever arm, mounts) is assumed, and named",
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


def when_of_filter(name: str) -> str:
    """When a parameter of the filter may change, in words."""
    if name.startswith(SAFE):
        return "may change in flight, from the next sample on"
    return "may change while the filter does not run"


def when_of_node(name: str) -> str:
    """The same of the node's own."""
    return "may change while the filter does not run" if name.startswith("datum.") else ""

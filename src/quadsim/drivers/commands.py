"""What goes out to a vehicle by a driver file: commands as the driver wants them, and services."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.drivers.outward import check_name

#: What can be asked of a vehicle.
SERVICES = ("arm", "disarm", "offboard", "land")
#: Types that can be asked, each with the key that it needs, and the field of the answer that states
#: whether it was heard.
SERVICE_TYPES = {
    "std_srvs/srv/Trigger": ("", "success"),
    "std_srvs/srv/SetBool": ("", "success"),
    "mavros_msgs/srv/CommandBool": ("", "success"),
    "mavros_msgs/srv/SetMode": ("mode", "mode_sent"),
    "px4_msgs/srv/VehicleCommand": ("command", "reply.result"),
    # Crazyswarm2's answers are empty
    "crazyflie_interfaces/srv/Arm": ("", ""),
    "crazyflie_interfaces/srv/Land": ("", ""),
    "crazyflie_interfaces/srv/NotifySetpointsStop": ("", ""),
}
#: How a Crazyflie lands by itself: to this height, in this time.
LAND_AT_M, LAND_IN_NS = 0.02, 4_000_000_000


@dataclass(frozen=True, slots=True)
class DriverParameter:
    """A parameter of the flight controller without which no flight is safe."""

    name: Annotated[str, Spec("the flight controller's name of it")]
    why: Annotated[str, Spec("what another one leads to")]
    most: Annotated[float, Spec("largest value that is allowed, in its own unit")] = math.inf
    bits: Annotated[int, Spec("bits of it that have to be set", ge=0)] = 0
    of: Annotated[tuple[str, ...], Spec("our commands that need it; empty: all")] = ()
    node: Annotated[
        str,
        Spec(
            "the driver's node whose ROS parameters are the flight controller's, relative to its"
            " namespace, or absolute; empty: this link cannot read them"
        ),
    ] = ""

    def __post_init__(self) -> None:
        if self.node:
            check_name(self.node)
        if self.most == math.inf and not self.bits:
            raise InputError(f"parameters: {self.name}: give most, or bits")

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        return f"with the bits {self.bits}" if self.bits else f"at most {self.most:g}"

    def allows(self, value: float) -> bool:
        """Whether it may have a value."""
        if not math.isfinite(value):
            return False
        return value <= self.most and int(value) & self.bits == self.bits


@dataclass(frozen=True, slots=True)
class DriverService:
    """How a vehicle is asked for something by its driver; several for one are asked in order."""

    ours: Annotated[str, Spec("what is asked", choices=SERVICES)]
    name: Annotated[str, Spec("the driver's service, relative to its namespace, or absolute")]
    type: Annotated[str, Spec("the driver's, package/srv/Type", choices=tuple(SERVICE_TYPES))]
    value: Annotated[bool, Spec("of SetBool and CommandBool")] = True
    mode: Annotated[str, Spec("of SetMode: the flight controller's name of the mode")] = ""
    command: Annotated[int, Spec("of VehicleCommand: VEHICLE_CMD_...", ge=0, le=2**32 - 1)] = 0
    params: Annotated[tuple[float, ...], Spec("of VehicleCommand: param1 and on")] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        needed = SERVICE_TYPES[self.type][0]
        if needed and not getattr(self, needed):
            raise InputError(f"{self.ours}: {self.type} needs the key {needed!r}")
        if len(self.params) > 7:
            raise InputError(f"params: {len(self.params)} numbers; allowed: at most 7")

    @property
    def answer(self) -> str:
        """Field of the answer that tells whether it was heard; empty: that it came tells it."""
        return SERVICE_TYPES[self.type][1]

    def request(self, now_ns: int) -> dict[str, object]:
        """Fields of the request, by their dotted names.

        Args:
            now_ns: time of it, by the computer's clock.
        """
        if self.type.endswith("/SetMode"):
            return {"custom_mode": self.mode}
        if self.type.endswith("/SetBool"):
            return {"data": self.value}
        if self.type.endswith("/CommandBool"):
            return {"value": self.value}
        if self.type.endswith("/Arm"):
            return {"arm": self.value}
        if self.type == "crazyflie_interfaces/srv/Land":
            return {
                "group_mask": 0,  # of all groups, one vehicle's service is for it alone
                "height": LAND_AT_M,
                "duration.sec": LAND_IN_NS // 1_000_000_000,
                "duration.nanosec": LAND_IN_NS % 1_000_000_000,
            }
        if self.type.endswith("/VehicleCommand"):
            fields: dict[str, object] = {
                "request.timestamp": now_ns // 1000,
                "request.command": self.command,
                # 0 is whoever hears it: the vehicle's MAV_SYS_ID is not known here
                "request.target_system": 0,
                "request.target_component": 0,
                "request.source_system": 1,
                "request.source_component": 1,
                "request.from_external": True,
            }
            numbers = {f"request.param{i + 1}": value for i, value in enumerate(self.params)}
            return fields | numbers
        return {}

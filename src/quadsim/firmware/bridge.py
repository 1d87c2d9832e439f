"""Firmware as a controller of the closed loop: devices in, motor commands out, at each IMU sample.

The vehicle, its world, its devices with their errors and faults, the log, criteria and reports are
those of :class:`quadsim.sim.closed_loop.ClosedLoop`. The firmware takes the place of inner loop and
mixer (Betaflight, which is sent an attitude and a thrust) or of all that estimates and controls
(ArduPilot, PX4, which are sent places to fly to).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import plain
from quadsim.base.errors import FlightError, InputError
from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_POSITION
from quadsim.control.airframe import AirframeParams
from quadsim.control.turning import TurningHeading
from quadsim.firmware.axes import Rotor, rotor_order
from quadsim.firmware.targets import ThrustTarget
from quadsim.firmware.transport import Strays
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import Quat, from_euler, rotate, yaw_of
from quadsim.mission.flight.flight import FlightManager
from quadsim.mission.items import Item
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import OK, WARN, Event
from quadsim.sim.loop import ALL_OUTSIDE
from quadsim.sim.vehicles import Vehicles

_rotate = plain(rotate)

#: How often a firmware's odometry is carried on to now, ns.
ODOMETRY_NS = 10_000_000


class Devices:
    """What the devices of one vehicle have published, in body axes (FLU)."""

    def __init__(self, loop: ClosedLoop) -> None:
        sensors = {
            kind: params for kind, params in loop.scenario.sensors.items() if kind in loop.devices
        }
        self._samples: dict[str, NDArray[np.record]] = {
            kind: loop.devices[kind]["sample"][:1] for kind in sensors
        }
        self._stamps = {kind: sample["stamp_ns"] for kind, sample in self._samples.items()}
        self._values = {kind: sample["values"][0] for kind, sample in self._samples.items()}
        self._taken = dict.fromkeys(sensors, 0)
        self._mounts: dict[str, Quat] = {
            kind: plain(from_euler)(*np.radians(params.rotation_deg).tolist())
            for kind, params in sensors.items()
            if hasattr(params, "rotation_deg")
        }
        imu = self._samples["imu"]
        self._f_S, self._w_S = imu["f_S"][0], imu["w_S"][0]
        self._imu: tuple[Vec3, Vec3] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))

    def fresh(self, kind: str) -> NDArray[np.record] | None:
        """(1,) newest sample of a device, if it was not taken before."""
        if kind not in self._stamps:
            return None
        stamp_ns = self._stamps[kind].item()
        if stamp_ns == self._taken[kind]:
            return None
        self._taken[kind] = stamp_ns
        return self._samples[kind]

    def take(self, kind: str) -> NDArray[np.record] | None:
        """(1,) likewise, if it is whole."""
        sample = self.fresh(kind)
        whole = sample is not None and math.isfinite(sum(self._values[kind].tolist()))
        return sample if whole else None

    def imu(self) -> tuple[Vec3, Vec3]:
        """Newest specific force, m/s^2, and rate, rad/s, in B; held while there is no new one."""
        if self.take("imu") is not None:
            self._imu = self.to_body("imu", self._f_S), self.to_body("imu", self._w_S)
        return self._imu

    def vector_B(self, kind: str, name: str) -> Vec3 | None:
        """A new vector of a device in B, such as a field in T."""
        sample = self.take(kind)
        return None if sample is None else self.to_body(kind, sample[name][0])

    def to_body(self, kind: str, vector: NDArray[np.float64]) -> Vec3:
        """Rotate a vector from a device's axes into B."""
        x, y, z = vector.tolist()
        return _rotate(self._mounts[kind], (x, y, z))

    def value(self, kind: str, name: str) -> float | None:
        """A new number of a device that gives one."""
        sample = self.take(kind)
        return None if sample is None else float(sample[name][0])


class Craft:
    """What a firmware is connected to: one vehicle and its flight.

    Attributes:
        index: which vehicle of its world it is, from 0.
        name: of the firmware.
        devices: what it feels.
        mission: the items of it.
        manager: what the mission wants; it looks at the odometry.
        airframe: the vehicle as its installer knows it.
        datum: origin of the world.
        setpoints, commands, odometries: (1,) records of the flight: setpoint of the mission,
            command of the position loop, and the odometry that both use.
        sensors: parameters of its devices by their kinds.
        strays: what came to the firmware's ports from others.
        poses: (stamp, p_W, q_WB) of a motion capture that the firmware was not sent yet.
        thrust: attitude or rates with a thrust that go out in place of a wanted velocity; None:
            that does.
        takes_thrust: whether that can go out.
        p_W, v_W, q_WB: the true ones, for what a simulator in the firmware makes devices of.
    """

    def __init__(self, loop: ClosedLoop, vehicles: Vehicles, index: int, name: str) -> None:
        states = vehicles.states[index : index + 1]
        self._loop = loop
        self.index, self.name = index, name
        self.devices = Devices(loop)
        self.mission: Sequence[Item] = vehicles.missions[index]
        self.manager: FlightManager = loop.manager
        self.airframe: AirframeParams = loop.scenario.airframe
        self.datum: Datum = loop.scenario.environment.datum
        self.setpoints, self.commands = states["setpoint"], states["command"]
        self.odometries, truth = states["odometry"], states["truth"][:, 0]
        self.p_W, self.v_W, self.q_WB = truth["p_W"][0], truth["v_W"][0], truth["q_WB"][0]
        self.sensors: Mapping[str, Any] = loop.scenario.sensors
        self.strays = Strays()
        self.poses: list[tuple[int, Vec3, Quat]] = []
        self.thrust: ThrustTarget | None = None
        self.takes_thrust = False
        self._heading = TurningHeading()

    def tell(self, now_ns: int, words: str, warns: bool = False) -> None:
        """Record a message of the firmware as an event."""
        self._loop.events.append(Event(now_ns, WARN if warns else OK, self.name, words))

    def here(self) -> np.record:
        """A setpoint: stay at the odometry's position."""
        setpoint: np.record = np.zeros(1, self.setpoints.dtype)[0]
        setpoint["mode"] = MODE_POSITION
        setpoint["p_W"] = self.odometries["p_W"][0]
        setpoint["yaw"] = plain(yaw_of)(tuple(self.odometries["q_WB"][0].tolist()))
        return setpoint

    def thrust_wanted(self) -> ThrustTarget:
        """The mission's attitude setpoint, its heading integrated from the wanted yaw rate."""
        setpoint, now_ns = self.setpoints[0], int(self.odometries["stamp_ns"][0])
        yaw, rate = plain(yaw_of)(tuple(self.odometries["q_WB"][0].tolist())), setpoint["yaw_rate"]
        heading = self._heading.advance(now_ns, yaw, float(rate))
        q_WB = plain(from_euler)(float(setpoint["roll"]), float(setpoint["pitch"]), heading)
        return ThrustTarget(q_WB, (0.0, 0.0, float(rate)), float(setpoint["thrust"]))

    def tell_odometry(
        self, now_ns: int, p_W: Sequence[float], v_W: Sequence[float], q_WB: Quat, w_B: Vec3
    ) -> None:
        """Write the motion that the firmware estimates now."""
        odometry = self.odometries
        odometry["stamp_ns"] = now_ns
        odometry["p_W"], odometry["v_W"] = p_W, v_W
        odometry["q_WB"], odometry["w_B"] = q_WB, w_B


class Firmware(Protocol):
    """One firmware that flies one vehicle.

    Attributes:
        name: of it.
        outside: what it does, MOTORS_OUTSIDE or ALL_OUTSIDE.
        frames: number of rotors to the motors as it numbers them.
    """

    name: str
    outside: int
    frames: Mapping[int, tuple[Rotor, ...]]

    @property
    def ready(self) -> bool:
        """Whether it would arm."""
        ...

    def open(self, craft: Craft) -> None:
        """Start it, and connect."""
        ...

    def send(self, now_ns: int) -> None:
        """Hand it what the devices say at a stamp."""
        ...

    def receive(self, now_ns: int) -> Sequence[float]:
        """Throttles of its motors, 0 to 1, as it answers; several compute at once meanwhile."""
        ...

    def close(self) -> None:
        """End it."""
        ...

    def counts(self) -> Mapping[str, int]:
        """How many packets came, and how many were lost, late or doubled."""
        ...


class Bridge:
    """Flies one vehicle by firmware.

    Attributes:
        craft: what the firmware is connected to.
    """

    def __init__(
        self, loop: ClosedLoop, vehicles: Vehicles, index: int, firmware: Firmware
    ) -> None:
        if loop.use_truth or loop.scenario.file.switch_at_s:
            raise InputError(f"{firmware.name}: flies on its own estimate, not on the truth")
        if loop.scenario.parts:
            raise InputError(
                f"{firmware.name}: flies without {loop.scenario.parts[0]}; leave it out"
            )
        airframe = loop.scenario.airframe
        if airframe.kind != "multirotor":
            raise InputError(f"{firmware.name}: flies multirotors, the vehicle is a helicopter")
        self._order = rotor_order(airframe, firmware.frames, firmware.name)
        self._loop, self._firmware = loop, firmware
        states, setup = vehicles.states[index : index + 1], vehicles.setups[index]
        setup["outside"] = firmware.outside
        self._command = states["pending"][0, int(setup["delay"])]
        self._thrust = states["command"]["thrust"]
        self._top_radps = airframe.rotor_speed_max_radps
        self._lift_N_s2, self._mass_kg = airframe.thrust_coefficient_N_s2, airframe.mass_kg
        self._tells_thrust = firmware.outside == ALL_OUTSIDE
        if self._tells_thrust:
            loop.flies_on = firmware.name
        self.craft = Craft(loop, vehicles, index, firmware.name)
        self.craft.takes_thrust = self._tells_thrust
        firmware.open(self.craft)
        loop.held = True
        vehicles.outside.append((firmware.send, self.receive))

    def receive(self, now_ns: int) -> None:
        """Take the firmware's answer at a stamp of the IMU."""
        throttles = self._firmware.receive(now_ns)
        self._loop.held = not self._firmware.ready
        command, top_radps, squares = self._command, self._top_radps, 0.0
        for words in self.craft.strays.news:
            self.craft.tell(now_ns, words, warns=True)
        self.craft.strays.news.clear()
        for number, (rotor, throttle) in enumerate(zip(self._order, throttles, strict=False), 1):
            if not math.isfinite(throttle):
                raise FlightError(f"{self._firmware.name}: motor {number} is {throttle}, not taken")
            speed_radps = min(max(throttle, 0.0), 1.0) * top_radps
            command[rotor] = speed_radps
            squares += speed_radps * speed_radps
        if self._tells_thrust:  # by which the mission feels the ground
            self._thrust[0] = self._lift_N_s2 * squares / self._mass_kg


def state_sigmas(odometries: Any, p_m: float, v_mps: float, tilt_rad: float) -> None:
    """State how sure a firmware is of its motion, where it does not say that itself."""
    odometries["p_variance"], odometries["v_variance"] = p_m * p_m, v_mps * v_mps
    odometries["attitude_variance"] = tilt_rad * tilt_rad

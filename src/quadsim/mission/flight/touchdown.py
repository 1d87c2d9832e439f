"""How the ground is felt, by the vehicle's own thrust and motion alone."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from quadsim.base.records import MODE_ATTITUDE
from quadsim.control.parameters import GRAVITY_MPS2
from quadsim.mission.flight.states import LANDINGS

if TYPE_CHECKING:
    from quadsim.mission.flight.flight import FlightManager

#: Without a motor: growth of the acceleration upwards, beyond that of the thrust, by which a strike
#: on the ground is felt, m/s^2, within a time, s; largest sink rate after it, m/s, and height, m.
STRIKE_MPS2, STRIKE_S, STRIKE_SINK_MPS, STRIKE_BELOW_M = 2.0, 0.1, 0.2, 1.0


class Touchdown:
    """Feels for the ground in the landings of one flight.

    Args:
        flight: whose thrust and estimate are watched.
    """

    def __init__(self, flight: FlightManager) -> None:
        self._flight = flight
        self.light_ns: int | None = None  # since when the ground seems to carry the vehicle
        self._sinking: deque[tuple[float, float, float]] = deque()  # time, speed up, thrust

    def is_down(self) -> bool:
        """Whether the ground has carried the vehicle for a while; without a motor, has met it."""
        flight, params = self._flight, self._flight.params
        light = flight.thrust < params.touchdown_thrust * GRAVITY_MPS2
        if not light or abs(flight.estimate.v_W[2]) > params.touchdown_speed_mps:
            self.light_ns = None
        elif self.light_ns is None:
            self.light_ns = flight.now_ns
        if self.light_ns is not None and flight.since_s(self.light_ns) >= params.touchdown_s:
            return True
        return flight.crippled and self._strikes()

    def _strikes(self) -> bool:
        """Whether the ground stops the vehicle: more than its thrust does.

        On three rotors it comes down spinning, on one foot: control that goes on until the ground
        carries it would turn it over. What thrust is left is unknown, so changes are compared.
        """
        flight, past = self._flight, self._sinking
        now_s, v_up = flight.now_ns * 1e-9, flight.estimate.v_W[2]
        past.append((now_s, v_up, flight.thrust))
        while past[0][0] < now_s - 2.01 * STRIKE_S:
            past.popleft()
        if past[0][0] > now_s - 1.5 * STRIKE_S or v_up < -STRIKE_SINK_MPS:
            return False
        middle = next(i for i, one in enumerate(past) if one[0] > now_s - 1.01 * STRIKE_S)
        first, between, last = past[0], past[middle], past[-1]
        if not first[0] < between[0] < last[0]:
            return False
        before_mps2 = (between[1] - first[1]) / (between[0] - first[0])
        after_mps2 = (last[1] - between[1]) / (last[0] - between[0])
        thrusts = [one[2] for one in past]
        risen_mps2 = max(0.0, max(thrusts[middle:]) - min(thrusts[: middle + 1]))
        felt_mps2 = after_mps2 - before_mps2 - risen_mps2
        return felt_mps2 > STRIKE_MPS2 and flight.height_m() < STRIKE_BELOW_M

    def relax(self, setpoints: Any) -> None:
        """Level, at the thrust there is, while the ground seems to carry the vehicle.

        An estimate that goes on drifting, or the lean against a wind, would else tip it over where
        it stands.
        """
        if self.light_ns is not None and self._flight.state in LANDINGS:
            setpoints["mode"] = MODE_ATTITUDE
            setpoints["roll"] = setpoints["pitch"] = setpoints["yaw_rate"] = 0.0
            setpoints["thrust"] = self._flight.thrust

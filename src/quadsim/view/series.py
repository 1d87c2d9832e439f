"""Time series of a vehicle: motion, errors with three deviations, motors, battery, innovations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import rerun as rr

from quadsim.analysis.metrics import errors
from quadsim.analysis.signals import euler_angles
from quadsim.sim.log import Array, Inside, Stamps, Track

Colour = tuple[int, int, int]
Send = Callable[[str, Stamps, rr.ComponentColumnList], None]
Fix = Callable[[str, rr.AsComponents], None]

AXES = ("east", "north", "up")
ANGLES = ("roll", "pitch", "yaw")
#: Of the three axes, where a plot has one track alone.
AXIS_COLOURS = ((200, 60, 50), (40, 140, 60), (40, 80, 200))
#: Rows of the truth that are stored for estimates that come later.
KEPT_ROWS = 400


def _tint(colour: Sequence[int], axis: int) -> Colour:
    """A track's colour, lighter with each axis."""
    share = 0.28 * axis
    r, g, b = (round(part + share * (255 - part)) for part in colour[:3])
    return (r, g, b)


class FlightSeries:
    """Logs the time series of one vehicle.

    Args:
        send: logs columns at stamps.
    """

    def __init__(self, send: Send, fix: Fix, root: str, colours: Mapping[str, Colour]) -> None:
        self._send, self._fix, self._root, self._colours = send, fix, root, colours
        self._truth = Track.empty()
        #: Groups that hold something, as :data:`quadsim.view.flights.TABS` names them.
        self.groups: set[str] = set()

    def plot(
        self,
        path: str,
        stamp_ns: Stamps,
        values: Array,
        names: Sequence[str],
        colours: Sequence[Colour],
        width: float = 1.5,
    ) -> None:
        """Lines of one entity.

        Args:
            path: under the vehicle's.
            stamp_ns: (N,).
            values: (N, k).
            width: of the lines, in points of the screen.
        """
        if not len(stamp_ns):
            return
        full = f"{self._root}/{path}"
        self.groups.add(path.partition("/")[0])
        widths = [width] * len(names)
        self._fix(full, rr.SeriesLines(names=list(names), colors=list(colours), widths=widths))
        columns = rr.Scalars.columns(scalars=np.ascontiguousarray(values, float).ravel())
        self._send(full, stamp_ns, columns.partition([values.shape[1]] * len(stamp_ns)))

    def _of_track(self, group: str, name: str, stamp_ns: Stamps, values: Array) -> None:
        names = ANGLES if group == "attitude" else AXES
        colours = [_tint(self._colours[name], axis) for axis in range(3)]
        self.plot(f"{group}/{name}", stamp_ns, values, [f"{name} {n}" for n in names], colours)

    def motion(self, name: str, track: Track) -> None:
        """Position, velocity, attitude, and the errors against the truth heard so far."""
        self._of_track("position", name, track.stamp_ns, track.p_W)
        angles = np.rad2deg(euler_angles(track.q_WB))
        if name == "reference":
            self._of_track("attitude", name, track.stamp_ns, angles * [np.nan, np.nan, 1.0])
            return
        self._of_track("velocity", name, track.stamp_ns, track.v_W)
        self._of_track("attitude", name, track.stamp_ns, angles)
        if name == "truth":
            self._keep(track)
        elif len(self._truth):
            self._errors(name, track)

    def restart(self) -> None:
        """Forget the truth of another flight."""
        self._truth = Track.empty()

    def _keep(self, track: Track) -> None:
        """Remember the end of the truth."""
        old = self._truth[-KEPT_ROWS:]
        parts = [
            np.concatenate([getattr(old, part), getattr(track, part)])
            for part in ("stamp_ns", "p_W", "v_W", "q_WB", "w_B")
        ]
        self._truth = Track(*parts)

    def _errors(self, name: str, track: Track) -> None:
        error = errors(track, self._truth)
        if name == "blind":  # its error grows without bound: a plot of its own
            names = [f"{name} {axis}" for axis in AXES]
            self.plot("blind_error/blind", error.stamp_ns, error.position_W, names, AXIS_COLOURS)
            return
        groups = {
            "position": (error.position_W, slice(0, 3), 1.0),
            "velocity": (error.velocity_W, slice(3, 6), 1.0),
            "attitude": (error.attitude_W, slice(6, 9), 180.0 / np.pi),
        }
        for group, (values, columns, unit) in groups.items():
            path = f"{group}_error/{name}"
            names = [f"{name} {axis}" for axis in AXES]
            self.plot(path, error.stamp_ns, unit * values, names, AXIS_COLOURS)
            if error.sigma is not None and name == "estimate":
                bound = 3.0 * unit * error.sigma[:, columns]
                names = [f"{sign}3 σ {axis}" for sign in "+-" for axis in AXES]
                colours = [_tint(colour, 2) for colour in AXIS_COLOURS] * 2
                both = np.hstack([bound, -bound])
                self.plot(f"{path}_bounds", error.stamp_ns, both, names, colours, 1.0)

    def motors(self, stamp_ns: Stamps, speed_radps: Array) -> None:
        """Speeds of the rotors, rad/s."""
        names = [f"rotor {i}" for i in range(speed_radps.shape[1])]
        palette = [
            *AXIS_COLOURS,
            (200, 140, 0),
            (120, 60, 160),
            (0, 140, 140),
            (90,) * 3,
            (170,) * 3,
        ]
        colours = [palette[i % len(palette)] for i in range(len(names))]
        self.plot("motor_speed", stamp_ns, speed_radps, names, colours)

    def fixes(self, track: Track) -> None:
        """GPS fixes among the positions."""
        names = [f"GPS {axis}" for axis in AXES]
        full = f"{self._root}/position/gps"
        colours = [_tint((214, 39, 40), axis) for axis in range(3)]
        self._fix(full, rr.SeriesPoints(names=names, colors=colours, marker_sizes=[1.5] * 3))
        columns = rr.Scalars.columns(scalars=np.ascontiguousarray(track.p_W, float).ravel())
        self._send(full, track.stamp_ns, columns.partition([3] * len(track)))

    def wind(self, stamp_ns: Stamps, v_W: Array) -> None:
        """Velocity of the air, m/s."""
        self.plot("wind", stamp_ns, v_W, [f"wind {axis}" for axis in AXES], AXIS_COLOURS)

    def range(self, stamp_ns: Stamps, range_m: Array) -> None:
        """Readings of the range finder, m; gaps where it sees nothing."""
        values = np.where(np.isfinite(range_m), range_m, np.nan)[:, None]
        self.plot("range", stamp_ns, values, ["range"], AXIS_COLOURS[:1])

    def battery(self, stamp_ns: Stamps, charge: Array, voltage_V: Array) -> None:
        """Charge in percent and voltage in V."""
        values = np.stack([100.0 * charge, voltage_V], axis=1)
        self.plot("battery", stamp_ns, values, ["charge, %", "voltage, V"], AXIS_COLOURS[:2])

    def inside(self, inside: Inside) -> None:
        """Innovations over their expected deviation, and biases."""
        for kind, stated in inside.innovations.items():
            scaled = stated.value / np.where(stated.sigma > 0.0, stated.sigma, np.nan)
            names = [f"{kind} {i}" for i in range(scaled.shape[1])]
            colours = [AXIS_COLOURS[i % 3] for i in range(len(names))]
            self.plot(f"innovations/{kind}", stated.stamp_ns, scaled, names, colours)
        stamp_ns = inside.stamp_ns
        biases = (("gyro_bias", inside.gyro_bias_B), ("accel_bias", inside.accel_bias_B))
        for name, values in biases:
            names = [f"{name} {axis}" for axis in "xyz"]
            self.plot(f"biases/{name}", stamp_ns, values, names, AXIS_COLOURS)

"""Figures of a vehicle in another program's file, under our keys, with their places.

Those of PX4, RotorPy, Agilicious, Flightmare and hector_quadrotor are read here; Python is not run.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError

#: Rotors that are tilted by more do not lift, rad.
MOST_TILT_RAD = math.radians(60.0)
#: Smaller tilts and products of inertia (over the largest moment) are rounding.
SMALL_TILT_RAD, SMALL_PRODUCT = 1e-4, 1e-4
#: Speed of the rotors in hover, which some files give instead of a thrust coefficient.
HOVER_SPEED = "hover_speed_radps"


@dataclass(frozen=True)
class Mount:
    """Where a sensor is.

    Attributes:
        position_B_m: from the centre of mass.
    """

    kind: str
    name: str
    position_B_m: tuple[float, ...]


@dataclass
class Figures:
    """Values by our dotted keys, what their comments say, and what a user should know.

    Attributes:
        sources: key to where it stands in the file, or how it was made.
        notes: what was left out or made up, a line each.
    """

    where: str
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)

    def put(self, key: str, value: Any, source: str) -> None:
        """Set a key."""
        self.values[key], self.sources[key] = value, source

    def take(self, content: Mapping[str, Any], keys: Mapping[str, str]) -> None:
        """Set keys from numbers of a mapping: its name to our key."""
        for name, key in keys.items():
            if name in content:
                self.put(key, self.number(content, name), name)

    def number(self, content: Mapping[str, Any], name: str) -> float:
        """A number of a mapping.

        Raises:
            InputError: it is missing, or no finite number.
        """
        value = content.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise InputError(f"{self.where}: {name}: {value!r}; allowed: a finite number")
        return float(value)

    def vector(self, content: Mapping[str, Any], name: str, count: int = 3) -> tuple[float, ...]:
        """So many numbers of a mapping; one more than asked for is left out.

        Raises:
            InputError: they are missing, or no finite numbers.
        """
        values = content.get(name)
        if not isinstance(values, Sequence | np.ndarray) or len(values) < count:
            raise InputError(f"{self.where}: {name}: {values!r}; allowed: {count} numbers")
        return tuple(self.number({name: value}, name) for value in list(values)[:count])

    def put_rotors(
        self, hubs: Iterable[Sequence[float]], directions: Iterable[float], source: str
    ) -> None:
        """Set places and directions of the rotors."""
        self.put("rotor_positions_B_m", [tuple(hub) for hub in hubs], source)
        self.put("rotor_directions", [float(np.sign(d)) for d in directions], source)

    def put_inertia(self, inertia: Array, source: str) -> None:
        """Set the inertia by a tensor (3, 3) about the centre of mass, in B."""
        moments = np.diag(inertia)
        products = inertia[[0, 0, 1], [1, 2, 2]]
        self.put("inertia_kg_m2", moments.tolist(), source)
        if np.abs(products).max() > SMALL_PRODUCT * moments.max():
            self.put("inertia_products_kg_m2", products.tolist(), source)

    def stand_up(self, axes: Sequence[Array]) -> list[int]:
        """Which rotors lift, by their axes in B, which are set where they are tilted.

        Raises:
            InputError: a rotor that pulls downwards.
        """
        lifting, tilts = [], []
        for i, axis in enumerate(axes):
            tilt = math.acos(float(np.clip(axis[2] / np.linalg.norm(axis), -1.0, 1.0)))
            if tilt > math.pi - MOST_TILT_RAD:
                raise InputError(
                    f"{self.where}: rotor {i} pulls down; allowed: rotors within"
                    f" {math.degrees(MOST_TILT_RAD):.0f} deg of upright"
                )
            if tilt > MOST_TILT_RAD:
                self.notes.append(
                    f"rotor {i} is left out: its axis is {math.degrees(tilt):.0f} deg off upright"
                )
                continue
            lifting.append(i)
            tilts.append(tilt)
        if max(tilts, default=0.0) > SMALL_TILT_RAD:
            units = [(axes[i] / np.linalg.norm(axes[i])).tolist() for i in lifting]
            tilted = ", ".join(f"{math.degrees(tilt):.4g}" for tilt in tilts)
            self.put("rotor_axes_B", units, f"tilted by {tilted} deg")
        return lifting


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


#: Air density of drag that a file gives over squared speed, kg/m^3.
AIR_KG_M3 = 1.225
#: The file's figures, with what PX4 takes where it sets none (SIH's module parameters).
_SIH = {
    "SIH_MASS": 1.0, "SIH_IXX": 0.025, "SIH_IYY": 0.025, "SIH_IZZ": 0.030, "SIH_IXY": 0.0,
    "SIH_IXZ": 0.0, "SIH_IYZ": 0.0, "SIH_T_MAX": 5.0, "SIH_Q_MAX": 0.1, "SIH_T_TAU": 0.05,
    "SIH_L_ROLL": 0.2, "SIH_L_PITCH": 0.2, "SIH_KDV": 1.0,
}  # fmt: skip
#: What SIH has no figure for: the speed at full thrust, rad/s.
SIH_SPEED_RADPS = 1000.0
#: Rotors of SIH that are farther out than this stand on a circle of radius 1, not at their places.
UNIT_REACH = 0.6
_SET = re.compile(
    r"^\s*param\s+set(?:-default)?\s+(?:-\S+\s+)?(\w+)\s+([-+.\deE]+)\s*(?:#.*)?$", re.MULTILINE
)
_LISTED = re.compile(r"^\s*\d+\s+\d+\s+(\w+)\s+([-+.\deE]+)(?:\s+\d+)?\s*$")

#: What a figure may be computed with: ``np.sqrt`` and the like.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "array": np.array, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "radians": np.radians,
    "deg2rad": np.radians, "abs": np.abs, "float": float,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


def read_px4(text: str, where: str) -> Figures:
    """Rotors, and SIH's mass and inertia, of an airframe or a list of parameters of PX4.

    PX4's axes are forward, right, down; a positive moment coefficient is a rotor that turns
    counter-clockwise seen from above.
    """
    figures, given = Figures(where), {}
    for line in text.splitlines():
        found = _SET.match(line) or _LISTED.match(line)
        if found is not None:
            try:
                given[found[1]] = float(found[2])
            except ValueError:
                raise InputError(f"{where}: {found[1]}: {found[2]!r}; allowed: a number") from None
    count = int(given.get("CA_ROTOR_COUNT", 0.0))
    named = {int(key[8 : key.index("_", 8)]) for key in given if re.match(r"CA_ROTOR\d+_", key)}
    count = count or max(named, default=-1) + 1
    if not 0 < count <= 16:
        raise InputError(f"{where}: CA_ROTOR_COUNT: {count}; allowed: 1 to 16")

    def of_rotor(i: int, key: str, default: float = 0.0) -> float:
        return given.get(f"CA_ROTOR{i}_{key}", default)

    axes = [
        np.array([of_rotor(i, "AX"), -of_rotor(i, "AY"), -of_rotor(i, "AZ", -1.0)])
        for i in range(count)
    ]
    if any(not np.any(axis) for axis in axes):
        raise InputError(f"{where}: CA_ROTORi_AX, AY, AZ: an axis is zero")
    lifting = figures.stand_up(axes)
    hubs = [[of_rotor(i, "PX"), -of_rotor(i, "PY"), -of_rotor(i, "PZ")] for i in lifting]
    moments = [of_rotor(i, "KM", 0.05) for i in lifting]
    figures.put("torque_ratio_m", float(np.mean(np.abs(moments))), "CA_ROTORi_KM, PX4's own 0.05")
    ends = [[given.get(f"SIM_GZ_EC_{end}{i + 1}") for i in lifting] for end in ("MIN", "MAX")]
    for key, values in zip(("rotor_speed_min_radps", "rotor_speed_max_radps"), ends, strict=True):
        if values and None not in values:
            source = "SIM_GZ_EC_MIN" if key.startswith("rotor_speed_min") else "SIM_GZ_EC_MAX"
            figures.put(key, float(np.mean([v for v in values if v is not None])), source)
    if "MPC_THR_HOVER" in given and "rotor_speed_max_radps" in figures.values:
        least, most = (
            figures.values.get(f"rotor_speed_{end}_radps", 0.0) for end in ("min", "max")
        )
        speed = least + given["MPC_THR_HOVER"] * (most - least)
        figures.put(HOVER_SPEED, speed, "MPC_THR_HOVER of the way to SIM_GZ_EC_MAX")
    if any(key.startswith("SIH_") for key in given) or "sihsim" in text:
        _put_sih(figures, given, hubs)
    figures.put_rotors(hubs, moments, "CA_ROTOR")
    return figures


def _put_sih(figures: Figures, given: Mapping[str, float], hubs: list[list[float]]) -> None:
    """Figures of PX4's own simulation; it multiplies geometry of unit size by its arms."""
    value = {**_SIH, **given}
    owned = ", ".join(key for key in _SIH if key not in given)
    if owned:
        figures.notes.append(f"not in the file, so that PX4's own values hold: {owned}")
    figures.put("mass_kg", value["SIH_MASS"], "SIH_MASS")
    xx, yy, zz, xy, xz, yz = (value[f"SIH_I{key}"] for key in ("XX", "YY", "ZZ", "XY", "XZ", "YZ"))
    inertia = np.array([[xx, -xy, -xz], [-xy, yy, yz], [-xz, yz, zz]])  # y and z turn over
    figures.put_inertia(inertia, "SIH_IXX, SIH_IYY, SIH_IZZ")
    k = value["SIH_T_MAX"] / SIH_SPEED_RADPS**2
    figures.put("thrust_coefficient_N_s2", k, f"SIH_T_MAX at {SIH_SPEED_RADPS:g} rad/s (ours)")
    figures.put("rotor_speed_max_radps", SIH_SPEED_RADPS, "ours: SIH knows thrusts alone")
    figures.put("torque_ratio_m", value["SIH_Q_MAX"] / value["SIH_T_MAX"], "SIH_Q_MAX, SIH_T_MAX")
    figures.put("body_drag_N_s_m", [value["SIH_KDV"]] * 3, "SIH_KDV")
    for key in ("time_constant_up_s", "time_constant_down_s"):
        figures.put(key, value["SIH_T_TAU"], "SIH_T_TAU")
    for axis, key in ((1, "SIH_L_ROLL"), (0, "SIH_L_PITCH")):
        if max(abs(hub[axis]) for hub in hubs) > UNIT_REACH:
            for hub in hubs:
                hub[axis] *= value[key]


def read_python(text: str, where: str) -> Figures:
    """RotorPy's dict of parameters in a Python file, which is read and not run.

    Raises:
        InputError: no Python, or it computes figures by more than arithmetic.
    """
    try:
        statements = ast.parse(text).body
        known: dict[str, Any] = {}
        for statement in statements:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                known[statement.targets[0].id] = _value_of(statement.value, known)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise InputError(f"{where}: no Python that can be read ({type(error).__name__})") from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{where}: a figure cannot be computed ({error})") from None
    params = [value for value in known.values() if isinstance(value, dict) and "mass" in value]
    if not params:
        raise InputError(f"{where}: no dict with the key 'mass'; allowed: RotorPy's quad_params")
    return read_rotorpy(params[-1], where)


def _value_of(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Value of an expression: literals, names before it, arithmetic and a few functions."""
    if isinstance(node, ast.Constant):
        value = node.value
        return float(value) if type(value) is int and abs(value) < 1e15 else value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Attribute) and node.attr == "pi":
        return math.pi
    if isinstance(node, ast.Dict) and all(key is not None for key in node.keys):
        keys = [_value_of(key, known) for key in node.keys if key is not None]
        return dict(zip(keys, (_value_of(value, known) for value in node.values), strict=True))
    if isinstance(node, ast.List | ast.Tuple):
        return [_value_of(item, known) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number_or_array(_value_of(node.operand, known))
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        sides = (_number_or_array(_value_of(side, known)) for side in (node.left, node.right))
        return _OPERATORS[type(node.op)](*sides)
    if isinstance(node, ast.Subscript):
        place = _value_of(node.slice, known)
        return _value_of(node.value, known)[int(place) if isinstance(place, float) else place]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value_of(item, known) for item in node.args))
    raise ValueError(f"line {node.lineno}: {ast.unparse(node)[:60]}")


def _number_or_array(value: Any) -> Any:
    if isinstance(value, float | np.ndarray):
        return value
    raise ValueError(f"arithmetic with {type(value).__name__}")


def read_rotorpy(params: Mapping[str, Any], where: str) -> Figures:
    """RotorPy's parameters, and those of the flight simulators before it (k_thrust, arm_length).

    Its direction of a rotor is that of the torque on the body, the opposite of the turn.
    """
    figures = Figures(where)
    for new, old in (("k_eta", "k_thrust"), ("k_m", "k_drag")):
        params = {new: params[old], **params} if old in params else params
    figures.take(
        params,
        {
            "mass": "mass_kg", "k_eta": "thrust_coefficient_N_s2", "k_d": "rotor_drag_N_s2",
            "rotor_radius": "rotor.radius_m", "k_z": "rotor.inflow_N_s2",
            "k_h": "rotor.translational_lift_N_s2_m2", "rotor_speed_min": "rotor_speed_min_radps",
            "rotor_speed_max": "rotor_speed_max_radps", "tau_m": "time_constant_up_s",
        },
    )  # fmt: skip
    if "tau_m" in params:
        figures.put("time_constant_down_s", figures.number(params, "tau_m"), "tau_m")
    xx, yy, zz = (figures.number(params, f"I{axis}") for axis in ("xx", "yy", "zz"))
    xy, xz, yz = (
        figures.number(params, key) if (key := f"I{axis}") in params else 0.0
        for axis in ("xy", "xz", "yz")
    )
    figures.put_inertia(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), "Ixx, Iyy, Izz")
    if "k_m" in params and "k_eta" in params:
        ratio = figures.number(params, "k_m") / figures.number(params, "k_eta")
        figures.put("torque_ratio_m", ratio, "k_m over k_eta")
    if isinstance(params.get("rotor_pos"), Mapping):
        places = params["rotor_pos"]
        hubs = [figures.vector(places, name) for name in places]
        turns = figures.vector(params, "rotor_directions", len(hubs))
        figures.put_rotors(hubs, [-turn for turn in turns], "rotor_pos, rotor_directions")
    elif "arm_length" in params:
        figures.take(params, {"arm_length": "arm_m"})
        figures.put("rotor_layout", "plus4", "ours: arm_length is along the axes there")
    if any(params.get(key) for key in ("c_Dx", "c_Dy", "c_Dz")):
        drags = [figures.number(params, f"c_D{axis}") for axis in "xyz"]
        areas = [2.0 * drag / AIR_KG_M3 for drag in drags]
        figures.put("drag_area_m2", areas, f"c_Dx, c_Dy, c_Dz over half of {AIR_KG_M3} kg/m^3")
        figures.put("air_density_kg_m3", AIR_KG_M3, "ours")
    if params.get("k_flap"):
        figures.notes.append("k_flap is left out: no moment here has its form")
    if "rI" in params:
        figures.mounts.append(Mount("imu", "rI", figures.vector(params, "rI")))
    return figures


def read_agilicious(params: Mapping[str, Any], where: str) -> Figures:
    """Agilicious' and Flightmare's quadrotor: front right, rear left, rear right, front left.

    The first two turn counter-clockwise. A thrust map of three numbers is of speed squared, speed
    and one; the coefficient is the one that lifts at the same speed in hover.
    """
    figures = Figures(where)
    figures.take(
        params,
        {
            "mass": "mass_kg", "kappa": "torque_ratio_m", "motor_tau": "time_constant_up_s",
            "motor_omega_min": "rotor_speed_min_radps", "motor_omega_max": "rotor_speed_max_radps",
            "motor_inertia": "rotor.inertia_kg_m2",
        },
    )  # fmt: skip
    if "motor_tau" in params:
        figures.put("time_constant_down_s", figures.number(params, "motor_tau"), "motor_tau")
    square, linear, offset = 0.0, 0.0, 0.0
    if "thrust_map" in params:
        values = params["thrust_map"]
        square, linear, offset = figures.vector({"thrust_map": [*values, 0.0, 0.0]}, "thrust_map")
        figures.put("thrust_coefficient_N_s2", square, "thrust_map")
    if linear or offset:
        hover_N = figures.number(params, "mass") * 9.80665 / 4.0
        root = linear * linear - 4.0 * square * (offset - hover_N)
        if root < 0.0 or square <= 0.0:
            raise InputError(f"{where}: thrust_map: it never gives hover's {hover_N:.3g} N a rotor")
        speed = (math.sqrt(root) - linear) / (2.0 * square)
        figures.put("thrust_coefficient_N_s2", hover_N / speed**2, "thrust_map, in hover")
        figures.notes.append(
            f"thrust_map has more than the square of the speed: thrust is right at {speed:.4g}"
            " rad/s, in hover"
        )
    if "kappa" not in params and "torque_map" in params and square > 0.0:
        torque = figures.vector({"torque_map": params["torque_map"]}, "torque_map", 1)[0]
        figures.put("torque_ratio_m", torque / square, "torque_map over thrust_map")
    if "inertia" in params:
        rows = params["inertia"]
        if isinstance(rows, list) and rows and isinstance(rows[0], list):
            table = {str(i): row for i, row in enumerate(rows)}
            tensor = np.array([figures.vector(table, str(i)) for i in range(3)])
        else:
            tensor = np.diag(figures.vector(params, "inertia"))
        figures.put_inertia(tensor, "inertia")
    arm = next((key for key in ("arm_l", "arm_length", "l") if key in params), "")
    names = ("tbm_fr", "tbm_bl", "tbm_br", "tbm_fl")
    if all(name in params for name in names):
        hubs = [figures.vector(params, name) for name in names]
        figures.put_rotors(hubs, (1.0, 1.0, -1.0, -1.0), ", ".join(names))
    elif arm:
        reach = math.sqrt(0.5) * figures.number(params, arm)
        hubs = [(reach * x, reach * y, 0.0) for x, y in ((1, -1), (-1, 1), (-1, -1), (1, 1))]
        figures.put_rotors(hubs, (1.0, 1.0, -1.0, -1.0), f"{arm}, an X")
    return figures


def read_hector(params: Mapping[str, Any], where: str) -> Figures:
    """hector_quadrotor's propulsion: a plus of rotors front, right, rear, left.

    A motor alone follows with J R over Psi squared.
    """
    figures = Figures(where)
    figures.take(
        params, {"CT0s": "thrust_coefficient_N_s2", "k_t": "torque_ratio_m",
                 "J_M": "rotor.inertia_kg_m2"},
    )  # fmt: skip
    if "CT1s" in params:
        figures.put("rotor.inflow_N_s2", max(0.0, -figures.number(params, "CT1s")), "CT1s")
    if all(key in params for key in ("J_M", "R_A", "Psi")):
        inertia, resistance, psi = (figures.number(params, key) for key in ("J_M", "R_A", "Psi"))
        for key in ("time_constant_up_s", "time_constant_down_s"):
            figures.put(key, inertia * resistance / psi**2, "J_M R_A / Psi^2")
    arm = figures.number(params, "l_m")
    hubs = [(arm, 0.0, 0.0), (0.0, -arm, 0.0), (-arm, 0.0, 0.0), (0.0, arm, 0.0)]
    figures.put_rotors(hubs, (1.0, -1.0, 1.0, -1.0), "l_m")
    return figures


def read_text(path: Path, text: str, content: Any) -> Figures:
    """Figures of a file that is no XML, by what it holds.

    Args:
        content: the same as YAML, or None.

    Raises:
        InputError: nothing that is known.
    """
    where = str(path)
    if path.suffix == ".py":
        return read_python(text, where)
    if _SET.search(text) or re.search(r"\bCA_ROTOR\d+_P", text):
        return read_px4(text, where)
    if not isinstance(content, Mapping) and "mass" in text:
        return read_python(text, where)
    whole = content if isinstance(content, Mapping) else {}
    parts = [whole, *(part for part in whole.values() if isinstance(part, Mapping))]
    for part in parts:
        if "CT0s" in part:
            return read_hector(part, where)
        if "mass" in part and ("k_eta" in part or "k_thrust" in part):
            return read_rotorpy(part, where)
        if "mass" in part and any(k in part for k in ("thrust_map", "motor_omega_max", "kappa")):
            return read_agilicious(part, where)
    raise InputError(
        f"{where}: no vehicle that is known; allowed: SDF, URDF, PX4's airframes, RotorPy's,"
        " Agilicious', Flightmare's and hector_quadrotor's parameters, or a vehicle file of ours"
    )

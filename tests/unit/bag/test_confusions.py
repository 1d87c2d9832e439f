"""Units and axes that a bag is in: each confusion of a flight is named with its key, and mended."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.analysis.replay_log import mostly_refused, refusals
from quadsim.bag import confusions
from quadsim.bag.confusions import confusions_of

SEED = 5
T_S = np.arange(0.0, 30.0, 0.01)
STAMP_NS = np.round(T_S * 1e9).astype(np.int64)
IMU, MAG, PRESSURE = "imu/data_raw", "imu/mag", "imu/static_pressure"
POSE = "external/pose_stamped"


def flight(side_m: float = 1.0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A vehicle that climbs and falls by 3 m and turns, with the noise of MEMS devices.

    Args:
        side_m: how far it sways along y.
    """
    rng = np.random.default_rng(SEED)
    yaw = 1.2 * np.sin(0.8 * T_S)
    R = Rotation.from_euler("z", yaw)
    force = np.zeros((len(T_S), 6))
    a_W = np.stack(
        [-np.cos(T_S), -side_m * np.sin(T_S), 9.81 - 3.0 * 0.25 * np.sin(0.5 * T_S)], axis=1
    )
    force[:, :3] = R.inv().apply(a_W)
    force[:, 5] = 1.2 * 0.8 * np.cos(0.8 * T_S)
    force += rng.normal(0.0, 0.02, force.shape)
    field = R.inv().apply([0.0, 2.15e-5, -4.3e-5]) + rng.normal(0.0, 3e-7, (len(T_S), 3))
    height = 3.0 * np.sin(0.5 * T_S)
    pressure = (95_000.0 - 11.5 * height + rng.normal(0.0, 2.0, len(T_S)))[:, None]
    p = np.stack([np.cos(T_S), side_m * np.sin(T_S), height], axis=1)
    pose = np.hstack([p, np.roll(R.as_quat(), 1, axis=1)])
    known = {IMU: force, MAG: field, PRESSURE: pressure, POSE: pose}
    return {name: (STAMP_NS, values) for name, values in known.items()}


def changed(name: str, edit):
    seen = flight()
    seen[name] = (seen[name][0], edit(seen[name][1].copy()))
    return seen


def times(*factors: float):
    return lambda values: values * np.array(factors)


G, DEG = 1.0 / 9.80665, 180.0 / np.pi
CASES = {
    "g": (IMU, times(G, G, G, 1, 1, 1), {"scale": 9.80665}),
    "deg/s": (IMU, times(1, 1, 1, DEG, DEG, DEG), {"rate_scale": np.pi / 180.0}),
    "frd": (IMU, times(1, -1, -1, 1, -1, -1), {"body": "frd"}),
    "no gravity": (IMU, lambda v: v - [0, 0, 9.81, 0, 0, 0], {}),
    "gauss": (MAG, times(1e4), {"scale": 1e-4}),
    "uT": (MAG, times(1e6), {"scale": 1e-6}),
    "hPa": (PRESSURE, times(1e-2), {"scale": 100.0}),
    "kPa": (PRESSURE, times(1e-3), {"scale": 1000.0}),
    "mm": (POSE, times(1e3, 1e3, 1e3, 1, 1, 1, 1), {"scale": 1e-3}),
    # what is read as w first was w first in the message, whose numbers are taken as x y z w
    "wxyz": (
        POSE,
        lambda v: np.hstack([v[:, :3], np.roll(v[:, 3:], 1, axis=1)]),
        {"quaternion": "wxyz"},
    ),
}


Y_UP, NED = (
    Rotation.from_euler("x", -90.0, degrees=True),
    np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]]),
)


def turned(world: Rotation, body: Rotation):
    """Poses in other axes of world and body."""

    def edit(values):
        q = world * Rotation.from_quat(np.roll(values[:, 3:], -1, axis=1)) * body.inv()
        return np.hstack([world.apply(values[:, :3]), np.roll(q.as_quat(), 1, axis=1)])

    return edit


UPSIDE, SAME = Rotation.from_euler("x", 180.0, degrees=True), Rotation.identity()
CASES |= {
    "y up": (POSE, turned(Y_UP, SAME), {"world": "y_up"}),
    "y up, body too": (POSE, turned(Y_UP, Y_UP), {"world": "y_up", "body": "y_up"}),
    "ned": (POSE, turned(Rotation.from_matrix(NED), UPSIDE), {"world": "ned", "body": "frd"}),
    "mirrored": (POSE, times(1, -1, 1, 1, 1, 1, 1), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_each_confusion_is_named_with_its_key(case, monkeypatch):
    name, edit, keys = CASES[case]
    monkeypatch.setattr(confusions, "_signals", lambda bag, namespace: changed(name, edit))
    (found,) = confusions_of(None, "/quad")
    assert found.topic == f"/quad/{name}"
    assert found.keys == pytest.approx(keys)


@pytest.mark.parametrize("side_m", [1.0, 0.02, 0.0])
def test_a_flight_in_the_right_units_has_none(monkeypatch, side_m: float):
    monkeypatch.setattr(confusions, "_signals", lambda bag, namespace: flight(side_m))
    assert confusions_of(None, "/quad") == []


@pytest.mark.parametrize(("side_m", "count"), [(0.02, 1), (0.002, 0)])
def test_a_mirrored_axis_shows_in_a_sway_of_centimetres(monkeypatch, side_m: float, count: int):
    """A scenario's way often goes along one axis; along the other it is held, and sways."""
    seen = flight(side_m)
    seen[POSE][1][:, 1] *= -1.0
    monkeypatch.setattr(confusions, "_signals", lambda bag, namespace: seen)
    words = [each.words for each in confusions_of(None, "/quad")]
    assert words == ["its positions are mirrored in y: left-handed axes?"] * count


def test_refused_measurements_are_counted_by_reason():
    counts = {"gnss_position_received": 10, "gnss_position_bad_variance": 7}
    assert refusals(counts, "gnss_position") == {"bad_variance": 7}
    figures = {"nis": {"gnss_position": {"count": 3, "refused": 0}}}
    assert mostly_refused("eskf", figures, counts) == ["70 % of the fixes refused (eskf)"]
    assert mostly_refused("eskf", figures, {"gnss_position_received": 3}) == []

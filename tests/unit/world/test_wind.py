"""Mean wind with shear, gusts, recordings: against closed forms; and what is refused."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import flatten, from_mapping, pack, unflatten
from quadsim.world.air.wind import WIND_STATE, WIND_WHITE, wind_start, wind_step
from quadsim.world.air.wind_parameters import WindParams
from quadsim.world.build import no_wind, read_wind, wind_table
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

FOOT_M = 0.3048
MEAN_W_MPS = (3.0, -4.0, 0.5)


class Air:
    """The air at one vehicle, call by call."""

    def __init__(
        self, table: Array | None = None, mean_W_mps: Any = MEAN_W_MPS, **wind: Any
    ) -> None:
        self.params = WindParams(**wind)
        self.world = pack(EnvironmentParams(wind_W_mps=mean_W_mps, wind=self.params))
        self.table = no_wind() if table is None else table
        self.state = np.zeros(1, WIND_STATE).view(np.recarray)[0]
        wind_start(self.state)

    def at(
        self, t_s: float = 1.0, height_m: float = 10.0, ground_m: float = 0.0, v_W: Any = (0.0,) * 3
    ) -> Array:
        """Velocity in W at a time and height."""
        white = np.full(WIND_WHITE, 0.7)
        p_W = (0.0, 0.0, ground_m + height_m)
        stamp_ns = round(t_s * 1e9)
        found = wind_step(
            self.state, self.world, self.table, p_W, v_W, ground_m, stamp_ns, 0.1, white
        )
        return np.array(found)


@pytest.mark.parametrize("ground_m", [0.0, 250.0])
def test_power_law_of_the_height_above_ground(ground_m):
    air = Air(shear="power", reference_height_m=20.0, power_exponent=0.2)
    for height_m in (0.5, 20.0, 300.0):
        factor = (height_m / 20.0) ** 0.2
        expected = (3.0 * factor, -4.0 * factor, 0.5)  # upwards it is as it is
        np.testing.assert_allclose(air.at(1.0, height_m, ground_m), expected, rtol=1e-12)
    np.testing.assert_array_equal(air.at(1.0, 0.0, ground_m), [0.0, 0.0, 0.5])
    np.testing.assert_array_equal(air.at(1.0, -1.0, ground_m), [0.0, 0.0, 0.5])


def test_logarithmic_law_of_the_standard():
    """MIL-F-8785C, 3.7.3.1: W20 ln(h/z0)/ln(20/z0), z0 = 0.15 ft in phases of category C."""
    air = Air(shear="log", reference_height_m=20.0 * FOOT_M, roughness_m=0.15 * FOOT_M)
    for height_ft in (3.0, 20.0, 100.0, 1000.0):
        factor = math.log(height_ft / 0.15) / math.log(20.0 / 0.15)
        found = air.at(1.0, height_ft * FOOT_M)
        np.testing.assert_allclose(found[:2], [3.0 * factor, -4.0 * factor], rtol=1e-12)
    np.testing.assert_allclose(air.at(1.0, 500.0), air.at(1.0, 1000.0 * FOOT_M))  # held above
    np.testing.assert_array_equal(air.at(1.0, 0.1 * FOOT_M)[:2], [0.0, 0.0])


def test_a_gust_rises_holds_and_falls_by_half_a_cosine():
    gust = (10.0, 2.0, 3.0, 8.0, -2.0, 1.0)
    air = Air(gusts=(gust,))
    shares = {0.0: 0, 10.0: 0, 10.5: 0.5 - math.sqrt(0.125), 11.0: 0.5, 12.0: 1, 14.0: 1, 15.0: 1,
              16.0: 0.5, 16.5: 0.5 - math.sqrt(0.125), 17.0: 0, 99.0: 0}  # fmt: skip
    for t_s, share in shares.items():
        expected = np.add(MEAN_W_MPS, np.multiply(share, gust[3:]))
        np.testing.assert_allclose(air.at(t_s), expected, atol=1e-12)


def test_gusts_add_up_and_may_come_at_once():
    air = Air(gusts=((1.0, 0.0, 1.0, 5.0, 0.0, 0.0), (0.0, 1.0, 9.0, 0.0, 2.0, 0.0)))
    np.testing.assert_allclose(air.at(1.0), [8.0, -2.0, 0.5])
    np.testing.assert_allclose(air.at(1.999), [8.0, -2.0, 0.5])
    np.testing.assert_allclose(air.at(2.0), [3.0, -2.0, 0.5])


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


FLAT = "t_s,east_mps,north_mps,up_mps\n1,2,0,0\n3,4,-2,1\n4,0,0,0\n"
PROFILE = (
    "height_m,t_s,up_mps,north_mps,east_mps\n"
    "20,0,0,0,6\n10,0,0,0,2\n10,10,0,4,2\n20,10,1,0,6\n\n50,0,0,0,7\n50,10,0,0,7\n"
)


def test_a_recording_is_linear_in_time_and_ends_with_its_last_value(tmp_path):
    table = read_wind(written(tmp_path / "w.csv", FLAT))
    assert table.shape == (3, 1, 5)
    air = Air(table, (0.0, 0.0, 0.0))
    times_s = [0.0, 1.0, 1.5, 3.0, 3.75, 4.0, 50.0, 1.5]  # and back again
    found = np.array([air.at(t_s, height_m=30.0) for t_s in times_s])
    for axis in range(3):
        expected = np.interp(times_s, table[:, 0, 0], table[:, 0, 2 + axis])
        np.testing.assert_allclose(found[:, axis], expected, atol=1e-12)
    np.testing.assert_allclose(Air(table).at(1.5), np.add(MEAN_W_MPS, [2.5, -0.5, 0.25]))


def test_a_recording_by_height(tmp_path):
    table = read_wind(written(tmp_path / "w.csv", PROFILE))
    assert table.shape == (2, 3, 5)
    air = Air(table, (0.0, 0.0, 0.0))
    for height_m in (0.0, 10.0, 12.5, 20.0, 35.0, 50.0, 80.0):
        for t_s in (-1.0, 0.0, 4.0, 10.0, 11.0):
            share = min(max(t_s / 10.0, 0.0), 1.0)
            rows = (1.0 - share) * table[0, :, 2:] + share * table[1, :, 2:]
            expected = [np.interp(height_m, [10.0, 20.0, 50.0], rows[:, i]) for i in range(3)]
            np.testing.assert_allclose(air.at(t_s, height_m, 100.0), expected, atol=1e-12)


def test_the_parameters_name_the_recording(tmp_path):
    path = written(tmp_path / "w.csv", FLAT)
    np.testing.assert_array_equal(wind_table(WindParams(file=str(path))), read_wind(path))
    assert wind_table(WindParams()).shape == (0, 1, 5)


HEAD = "t_s,east_mps,north_mps,up_mps\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"columns \(none\); allowed: t_s, east_mps, north_mps, up_mps, and height_m"),
        ("0,1,2,3\n", "columns 0, 1, 2, 3; allowed"),
        ("t_s,east_mps,north_mps\n", "columns t_s, east_mps, north_mps; allowed"),
        (HEAD, "no row of numbers"),
        (HEAD + "0,1,2,3\n1,2,3\n", "line 3: expected 4 finite numbers"),
        (HEAD + "0,1,2,x\n", "line 2: expected 4 finite numbers"),
        (HEAD + "0,1,2,nan\n", "line 2: expected 4 finite numbers"),
        (HEAD + "0,1,2,3\n0,1,2,3\n", "at 0 s: expected exactly one row for each time"),
        (HEAD + "0,1,200,3\n", "a velocity of 200 m/s"),
        (PROFILE + "20,5,0,0,0\n", "at 5 s, 10 m: expected exactly one row"),
        (PROFILE[: -len("50,10,0,0,7\n")], "at 10 s, 50 m: expected exactly one row"),
        (PROFILE + "50,10,0,0,8\n", "at 10 s, 50 m: expected exactly one row"),
    ],
)
def test_a_table_that_is_none_is_refused_with_the_place(tmp_path, text, message):
    path = written(tmp_path / "w.csv", text)
    with pytest.raises(InputError, match=rf"w\.csv: .*{message}"):
        read_wind(path)


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_wind(tmp_path / "w.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_wind(tmp_path / "b.csv")


@pytest.mark.parametrize(
    ("wind", "message"),
    [
        ({"shear": "linear"}, "shear: 'linear' is not known; allowed: one of none, power, log"),
        ({"turbulence": "kaimal"}, "turbulence: 'kaimal' is not known"),
        ({"power_exponent": 0.3}, "power_exponent: 0.3 has no effect: shear: none"),
        ({"shear": "power", "roughness_m": 0.1}, "roughness_m: 0.1 has no effect: shear: power"),
        ({"shear": "log", "power_exponent": 0.3}, "has no effect: shear: log"),
        ({"shear": "log", "roughness_m": 2.0, "reference_height_m": 1.0}, "roughness_m: 2.0"),
        ({"w20_mps": 5.0}, "w20_mps: 5.0 has no effect: turbulence: none"),
        ({"turbulence": "dryden", "sigma_mps": [1, 1, 1]}, "length_m: .*allowed: both zero"),
        ({"turbulence": "dryden", "length_m": [9, 9, 9]}, "length_m: .*allowed: both zero"),
        (
            {"turbulence": "dryden", "sigma_mps": [1, 1, 1], "length_m": [9, 0, 9]},
            "lengths of at least 0.1 m",
        ),
        (
            {
                "turbulence": "dryden",
                "sigma_mps": [1, 1, 1],
                "length_m": [9, 9, 9],
                "w20_mps": 1.0,
            },
            "w20_mps: 1.0 with sigma_mps",
        ),
        ({"turbulence": "dryden", "w20_mps": -1.0}, "w20_mps: -1.0 is out of range"),
        ({"gusts": [[0, -1, 0, 1, 1, 1]]}, r"gusts\[0\]: .*allowed: start, rise and hold of 0"),
        ({"gusts": [[0, 1, 0, 101, 1, 1]]}, r"gusts\[0\]: "),
        ({"gusts": [[0, 1, 0, 1, 1]]}, r"gusts\[0\]: 5 items; allowed: exactly 6"),
        ({"gusts": [[0, 1, 0, 1, 1, 1]] * 9}, "gusts: 9 items; allowed: at most 8"),
    ],
)
def test_what_cannot_be_is_refused(wind, message):
    with pytest.raises(InputError, match=rf"world\.yaml: wind: .*{message}"):
        from_mapping(EnvironmentParams, {"wind": wind}, "world.yaml")


#: For each parameter a wind in which it counts, and another value of it.
ALIVE: dict[str, tuple[dict[str, Any], Any]] = {
    "shear": ({}, "power"),
    "reference_height_m": ({"shear": "log"}, 20.0),
    "power_exponent": ({"shear": "power"}, 0.3),
    "roughness_m": ({"shear": "log"}, 0.1),
    "gusts": ({}, ((0.0, 1.0, 9.0, 1.0, 0.0, 0.0),)),
    "turbulence": ({"turbulence": "dryden"}, "von_karman"),
    "w20_mps": ({"turbulence": "dryden"}, 9.0),
    "sigma_mps": (
        {"turbulence": "dryden", "sigma_mps": (1.0,) * 3, "length_m": (9.0,) * 3},
        (1.0, 2.0, 1.0),
    ),
    "length_m": (
        {"turbulence": "dryden", "sigma_mps": (1.0,) * 3, "length_m": (9.0,) * 3},
        (9.0, 9.0, 18.0),
    ),
}


def series(wind: WindParams) -> Array:
    values = {f.name: getattr(wind, f.name) for f in fields(WindParams)}
    air = Air(**values)
    return np.array([air.at(0.1 * k, height_m=30.0) for k in range(1, 20)])


@pytest.mark.parametrize("name", [f.name for f in fields(WindParams) if f.name != "file"])
def test_each_parameter_changes_the_wind(name):
    beside, other = ALIVE[name]
    wind = WindParams(**beside)
    assert np.abs(series(wind) - series(replace(wind, **{name: other}))).max() > 1e-3


def test_a_world_with_wind_travels_as_ros_parameters():
    gusts = ((1.0, 2.0, 0.0, 1.0, 2.0, 3.0), (4.0, 0.0, 1.0, 0.0, 0.0, 9.0))
    world = EnvironmentParams(wind=WindParams(shear="log", gusts=gusts, turbulence="von_karman"))
    assert unflatten(EnvironmentParams, flatten(world), "test") == world

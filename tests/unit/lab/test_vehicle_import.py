"""Vehicle files of other programs: against sums over point masses, closed forms and flights."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from quadsim.base.errors import InputError
from quadsim.base.parameters import load
from quadsim.cli.main import main
from quadsim.lab.vehicle_import.vehicle_file import (
    hover_speed_radps,
    import_vehicle,
    read_figures,
    suite_text,
)
from quadsim.sensors.devices import load_suite
from quadsim.vehicle.parameters import VehicleParams

MOTOR = """<plugin filename="gz-sim-multicopter-motor-model-system" name="m{i}">
<jointName>rotor_{i}_joint</jointName><linkName>rotor_{i}</linkName>
<turningDirection>{turn}</turningDirection><timeConstantUp>0.02</timeConstantUp>
<timeConstantDown>0.03</timeConstantDown><maxRotVelocity>900</maxRotVelocity>
<motorConstant>9e-06</motorConstant><momentConstant>0.015</momentConstant>
<motorNumber>{i}</motorNumber><rotorDragCoefficient>8e-05</rotorDragCoefficient>
<rollingMomentCoefficient>1e-06</rollingMomentCoefficient>
<rotorVelocitySlowdownSim>10</rotorVelocitySlowdownSim></plugin>"""
HUBS = ((0.17, -0.16, 0.05), (-0.17, 0.16, 0.05), (0.17, 0.16, 0.05), (-0.17, -0.16, 0.05))
TURNS = ("ccw", "ccw", "cw", "cw")
MOTORS = "".join(MOTOR.format(i=i, turn=turn) for i, turn in enumerate(TURNS))


def inertial(mass: float, moments: tuple[float, float, float], pose: str = "0 0 0 0 0 0") -> str:
    xx, yy, zz = moments
    return (
        f"<inertial><pose>{pose}</pose><mass>{mass}</mass><inertia><ixx>{xx}</ixx><iyy>{yy}</iyy>"
        f"<izz>{zz}</izz><ixy>0</ixy><ixz>0</ixz><iyz>0</iyz></inertia></inertial>"
    )


def sdf(tilt: str = "0 0 0", more: str = "", body: str = "0 0 0 0 0 0") -> str:
    links = "".join(
        f'<link name="rotor_{i}"><pose>{x} {y} {z} {tilt}</pose>'
        + inertial(0.01, (1e-6, 2e-5, 2e-5))
        + '<collision name="c"><geometry><cylinder><length>0.01</length><radius>0.12</radius>'
        "</cylinder></geometry></collision></link>"
        for i, (x, y, z) in enumerate(HUBS)
    )
    return (
        '<sdf version="1.9"><model name="test"><link name="base_link">'
        + inertial(1.4, (0.012, 0.015, 0.022), body)
        + '<collision name="box"><pose>0 0 -0.02 0 0 0</pose><geometry><box><size>0.2 0.3 0.1'
        "</size></box></geometry></collision>"
        '<sensor name="imu" type="imu"><pose>0.01 0.02 0.03 0 0 0</pose></sensor></link>'
        f"{links}{more}{MOTORS}</model></sdf>"
    )


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def vehicle_of(path: Path, **options: object) -> tuple[VehicleParams, list[str]]:
    text, figures = import_vehicle(path, **options)  # type: ignore[arg-type]
    target = path.with_suffix(".yaml.out")
    target.write_text(text, encoding="utf-8")
    return load(VehicleParams, target), figures.notes


def test_links_of_sdf_become_the_body_that_their_points_make(tmp_path: Path) -> None:
    turned = math.radians(30.0)
    body = f"0.02 0 -0.01 0 0 {turned}"
    vehicle, _ = vehicle_of(written(tmp_path, "model.sdf", sdf(body=body)))
    # each link as six points on its axes with its mass and moments: an independent composite
    points, masses = [], []
    c, s = math.cos(turned), math.sin(turned)
    parts = [
        (
            1.4,
            (0.012, 0.015, 0.022),
            (0.02, 0.0, -0.01),
            np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]),
        )
    ]
    parts += [(0.01, (1e-6, 2e-5, 2e-5), hub, np.eye(3)) for hub in HUBS]
    for mass, moments, center, axes in parts:
        half = 0.5 * sum(moments)
        for k in range(3):
            reach = math.sqrt(max(0.0, 3.0 * (half - moments[k]) / mass))
            for sign in (1.0, -1.0):
                points.append(np.array(center) + sign * reach * axes[:, k])
                masses.append(mass / 6.0)
    at, weights = np.array(points), np.array(masses)
    center = weights @ at / weights.sum()
    off = at - center
    tensor = np.einsum("i,ij->", weights, off**2) * np.eye(3) - (off.T * weights) @ off
    assert vehicle.mass_kg == pytest.approx(1.44, rel=1e-12)
    np.testing.assert_allclose(vehicle.inertia_kg_m2, np.diag(tensor), rtol=1e-8)
    np.testing.assert_allclose(vehicle.rotor_positions_B_m, np.array(HUBS) - center, atol=1e-9)
    assert vehicle.rotor_directions == (1.0, 1.0, -1.0, -1.0)
    assert vehicle.rotor.inertia_kg_m2 == pytest.approx(2e-6)
    assert vehicle.rotor.radius_m == 0.12
    assert (vehicle.time_constant_up_s, vehicle.time_constant_down_s) == (0.02, 0.03)
    assert vehicle.contact.points_B_m[0] == pytest.approx((0.1, 0.15, -0.07) - center, abs=1e-9)
    assert hover_speed_radps(vehicle) == pytest.approx(math.sqrt(1.44 * 9.80665 / 4 / 9e-6))


def test_products_of_inertia_and_tilted_rotors_are_kept(tmp_path: Path) -> None:
    tilted = sdf(tilt="0.1 0 0", body="0 0 0 0 0 0.5")
    vehicle, _ = vehicle_of(written(tmp_path, "model.sdf", tilted))
    lean = (0.0, -math.sin(0.1), math.cos(0.1))
    np.testing.assert_allclose(vehicle.rotor_axes_B, [lean] * 4, atol=1e-9)
    # of the body alone, as the rotors stand in a rectangle: R diag(12, 15, 22) R' for x and y
    turned = (0.012 - 0.015) * math.sin(0.5) * math.cos(0.5)
    assert vehicle.inertia_products_kg_m2[0] == pytest.approx(turned, rel=1e-6)
    assert vehicle.inertia_products_kg_m2[1:] == pytest.approx((0.0, 0.0), abs=1e-8)
    assert vehicle.thrust_coefficient_N_s2 == pytest.approx(9e-6)
    lift = 4 * 9e-6 * hover_speed_radps(vehicle) ** 2 * math.cos(0.1)
    assert lift == pytest.approx(vehicle.mass_kg * 9.80665)


def tilted_hexacopter() -> str:
    """Places and turns of PX4's 10044_sihsim_hex; each rotor leans 15 deg about its arm (ours)."""
    lines = ["param set-default CA_ROTOR_COUNT 6", "param set SIH_MASS 1.5", "# sihsim"]
    c, s = math.cos(math.radians(15.0)), math.sin(math.radians(15.0))
    places = ((0.866, 0.5), (0.0, 1.0), (-0.866, 0.5), (-0.866, -0.5), (0.0, -1.0), (0.866, -0.5))
    for i, (x, y) in enumerate(places):
        lean = s if i % 2 else -s
        values = {"PX": x, "PY": y, "AX": -lean * y, "AY": lean * x, "AZ": -c}
        values["KM"] = -0.05 if i % 2 else 0.05
        lines += [f"param set-default CA_ROTOR{i}_{key} {value}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def test_px4s_axes_are_ours(tmp_path: Path) -> None:
    vehicle, _ = vehicle_of(written(tmp_path, "10044_hex", tilted_hexacopter()))
    axes = np.array(vehicle.rotor_axes_B)
    np.testing.assert_allclose(np.degrees(np.arccos(axes[:, 2])), 15.0, rtol=1e-4)
    # front right is (x, -y) here; its axis leans along (-y, -x) of the file, with y turned over
    lean = math.sin(math.radians(15.0))
    upwards = math.cos(math.radians(15.0))
    assert axes[0] == pytest.approx((lean * 0.5, lean * 0.866, upwards), abs=1e-4)


def test_a_rotor_that_pulls_down_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rotor 0 pulls down"):
        import_vehicle(written(tmp_path, "model.sdf", sdf(tilt="3.0 0 0")))


def test_an_included_model_is_found_beside_its_own(tmp_path: Path) -> None:
    for name in ("base", "outer"):
        (tmp_path / name).mkdir()
    base = sdf().replace(MOTORS, "")
    written(tmp_path / "base", "model.sdf", base)
    outer = (
        '<sdf version="1.9"><model name="outer"><include merge="true"><uri>model://base</uri>'
        "</include><include><uri>model://payload</uri></include>" + MOTORS + "</model></sdf>"
    )
    vehicle, notes = vehicle_of(written(tmp_path / "outer", "model.sdf", outer))
    assert vehicle.mass_kg == pytest.approx(1.44)
    assert any("model://payload is not found, and its mass" in note for note in notes)


URDF = (
    """<robot name="u"><link name="base_link"/><link name="body"><inertial><mass value="1.0"/>
<inertia ixx="0.01" iyy="0.012" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="fixed"><parent link="base_link"/><child link="body"/></joint>"""
    + "".join(
        f"""<link name="rotor_{i}"><inertial><mass value="0.01"/><inertia ixx="0" iyy="0"
izz="2e-5" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="rotor_{i}_joint"
type="continuous"><origin xyz="{x} {y} {z}"/><parent link="body"/><child link="rotor_{i}"/>
<axis xyz="0 0 1"/></joint>"""
        for i, (x, y, z) in enumerate(HUBS)
    )
    + f"<gazebo>{MOTORS}</gazebo></robot>"
)


def test_urdf_by_joints(tmp_path: Path) -> None:
    vehicle, _ = vehicle_of(written(tmp_path, "u.urdf", URDF))
    x, y, z = HUBS[0]
    lift = 0.04 * z / 1.04  # of the centre of mass
    across = 4 * 0.01 * y * y + 1.0 * lift**2 + 0.04 * (z - lift) ** 2
    assert vehicle.inertia_kg_m2[0] == pytest.approx(0.01 + across, rel=1e-9)
    assert vehicle.inertia_kg_m2[2] == pytest.approx(0.02 + 8e-5 + 0.04 * (x * x + y * y), rel=1e-9)


def test_an_impossible_inertia_is_lowered_and_said(tmp_path: Path) -> None:
    text = URDF.replace('izz="0.02"', 'izz="0.2"')
    vehicle, notes = vehicle_of(written(tmp_path, "u.urdf", text))
    assert vehicle.inertia_kg_m2[2] == pytest.approx(sum(vehicle.inertia_kg_m2[:2]), rel=1e-6)
    assert any("no body has it (0.202" in note for note in notes)


PX4 = "#!/bin/sh\nparam set-default CA_ROTOR_COUNT 4\n" + "".join(
    f"param set-default CA_ROTOR{i}_PX {x}\nparam set-default CA_ROTOR{i}_PY {y}\n"
    f"param set-default CA_ROTOR{i}_KM {km}  # ratio\nparam set-default SIM_GZ_EC_MIN{i + 1} 100\n"
    f"param set-default SIM_GZ_EC_MAX{i + 1} 1000\n"
    for i, (x, y, km) in enumerate(
        ((0.2, 0.1, 0.03), (-0.2, -0.1, 0.03), (0.2, -0.1, -0.03), (-0.2, 0.1, -0.03))
    )
)


def test_px4_asks_for_what_it_does_not_tell(tmp_path: Path) -> None:
    path = written(tmp_path, "4001_test", PX4 + "param set-default MPC_THR_HOVER 0.5\n")
    with pytest.raises(InputError, match="does not tell mass_kg: give --set mass_kg="):
        import_vehicle(path)
    given = {"mass_kg": 2.0, "inertia_kg_m2": [0.02, 0.02, 0.03]}
    vehicle, notes = vehicle_of(path, changes=given)
    assert vehicle.rotor_positions_B_m[0] == (0.2, -0.1, 0.0)  # front right: y is left here
    assert vehicle.rotor_directions == (1.0, 1.0, -1.0, -1.0)
    assert vehicle.torque_ratio_m == pytest.approx(0.03)
    assert hover_speed_radps(vehicle) == pytest.approx(550.0)
    assert any(note.startswith("time_constant_up_s: filled in") for note in notes)


def test_px4_takes_the_rest_of_another_file(tmp_path: Path) -> None:
    model = written(tmp_path, "model.sdf", sdf())
    vehicle, notes = vehicle_of(written(tmp_path, "4001_test", PX4), fill=(str(model),))
    assert vehicle.rotor_positions_B_m[0] == (0.2, -0.1, 0.0)
    assert vehicle.mass_kg == pytest.approx(1.44)
    assert any(note.startswith(f"from {model}: mass_kg") for note in notes)


def test_px4_sih_has_values_of_its_own(tmp_path: Path) -> None:
    text = "param set SIH_MASS 1.2\nparam set SIH_IXY 0.001\n" + PX4.replace("0.2", "1").replace(
        "0.1", "1"
    )
    vehicle, notes = vehicle_of(written(tmp_path, "10040_sihsim", text))
    assert vehicle.mass_kg == 1.2
    assert vehicle.inertia_kg_m2 == (0.025, 0.025, 0.030)
    assert vehicle.rotor_positions_B_m[0] == pytest.approx((0.2, -0.2, 0.0))
    assert any("PX4's own values hold: SIH_IXX" in note for note in notes)
    assert vehicle.inertia_products_kg_m2 == (-0.001, 0.0, 0.0)


ROTORPY = """
import numpy as np
d = 0.17
quad_params = {
    'mass': 0.5, 'Ixx': 3.65e-3, 'Iyy': 3.68e-3, 'Izz': 7.03e-3, 'num_rotors': 4,
    'rotor_pos': {'r1': d*np.array([np.sqrt(0.5), np.sqrt(0.5), 0]),
                  'r2': d*np.array([0.7, -0.7, 0]), 'r3': d*np.array([-0.7, -0.7, 0]),
                  'r4': d*np.array([-0.7, 0.7, 0])},
    'rotor_directions': np.array([1, -1, 1, -1]), 'rI': np.array([0.01, 0, 0]),
    'c_Dx': 0.5e-2, 'c_Dy': 0.5e-2, 'c_Dz': 1e-2, 'k_eta': 5.57e-06, 'k_m': 1.36e-07,
    'k_d': 1.19e-04, 'k_z': 2.32e-04, 'k_h': 3.39e-3, 'tau_m': 0.005,
    'rotor_speed_min': 0, 'rotor_speed_max': 1500}
"""


def test_rotorpy_is_read_and_not_run(tmp_path: Path) -> None:
    vehicle, _ = vehicle_of(written(tmp_path, "p.py", ROTORPY))
    assert vehicle.rotor_positions_B_m[0] == pytest.approx((0.17 * 0.5**0.5, 0.17 * 0.5**0.5, 0.0))
    assert vehicle.rotor_directions == (-1.0, 1.0, -1.0, 1.0)  # there: the torque on the body
    assert vehicle.torque_ratio_m == pytest.approx(1.36e-07 / 5.57e-06)
    assert vehicle.drag_area_m2[2] * 1.225 / 2 == pytest.approx(1e-2)
    assert read_figures(tmp_path / "p.py").mounts[0].position_B_m == (0.01, 0.0, 0.0)


@pytest.mark.parametrize(
    "evil",
    ["__import__('os').system('touch ran')", "open('ran', 'w')", "9.0**9.0**9.0**9.0", "'a' * 10",
     "[0][9]", "d.__class__", "(lambda: 0)()", "-" * 5000 + "1"],
)  # fmt: skip
def test_python_that_is_more_than_figures_is_refused(
    evil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, "p.py", ROTORPY.replace("'mass': 0.5", f"'mass': {evil}"))
    with pytest.raises(InputError, match=r"p\.py: "):
        import_vehicle(path)
    assert not (tmp_path / "ran").exists()


def test_agilicious_and_flightmare(tmp_path: Path) -> None:
    agilicious = {
        "mass": 0.752, "inertia": [0.0025, 0.0021, 0.0043], "kappa": 0.022, "motor_tau": 0.033,
        "tbm_fr": [0.075, -0.1, 0.0], "tbm_bl": [-0.075, 0.1, 0.0], "tbm_br": [-0.075, -0.1, 0.0],
        "tbm_fl": [0.075, 0.1, 0.0], "motor_omega_min": 150.0, "motor_omega_max": 2800.0,
        "thrust_map": [1.562522e-6, 0.0, 0.0],
    }  # fmt: skip
    vehicle, _ = vehicle_of(written(tmp_path, "a.yaml", yaml.safe_dump(agilicious)))
    assert vehicle.rotor_positions_B_m[0] == (0.075, -0.1, 0.0)
    assert vehicle.rotor_directions == (1.0, 1.0, -1.0, -1.0)
    flightmare = {
        "quadrotor_dynamics": {
            "mass": 0.73, "arm_l": 0.17, "motor_omega_min": 150.0, "motor_omega_max": 3000.0,
            "motor_tau": 0.0001, "kappa": 0.016, "thrust_map": [1.33e-6, 3.8e-3, -1.77],
        }
    }  # fmt: skip
    path = written(tmp_path, "f.yaml", yaml.safe_dump(flightmare))
    vehicle, notes = vehicle_of(path, changes={"inertia_kg_m2": [0.0025, 0.0021, 0.0043]})
    speed = hover_speed_radps(vehicle)
    thrust_N = 1.33e-6 * speed**2 + 3.8e-3 * speed - 1.77
    assert thrust_N == pytest.approx(0.73 * 9.80665 / 4)
    assert "time_constant_up_s: 0.0001 s is taken as 0.002 s" in notes


def test_hector_by_two_files(tmp_path: Path) -> None:
    motors = {
        "quadrotor_propulsion": {
            "Psi": 0.0072, "J_M": 2.6e-5, "R_A": 0.2, "k_t": 0.0153, "CT1s": -2.5e-4,
            "CT0s": 1.5e-5, "l_m": 0.275,
        }
    }  # fmt: skip
    fill = written(tmp_path, "motors.yaml", yaml.safe_dump(motors))
    body = URDF[: URDF.index('<link name="rotor_0"')] + "</robot>"
    vehicle, notes = vehicle_of(written(tmp_path, "q.urdf", body), fill=(str(fill),))
    assert vehicle.rotor_positions_B_m[1] == (0.0, -0.275, 0.0)
    assert vehicle.time_constant_up_s == pytest.approx(2.6e-5 * 0.2 / 0.0072**2)
    assert any(note.startswith("rotor_speed_max_radps: filled in") for note in notes)


def test_the_places_of_sensors_become_a_suite(tmp_path: Path) -> None:
    figures = read_figures(written(tmp_path, "model.sdf", sdf()))
    suite = written(tmp_path, "suite.yaml", suite_text(figures.mounts, "model.sdf"))
    z = 0.03 - 0.04 * 0.05 / 1.44
    assert load_suite(str(suite))["imu"].position_B_m == pytest.approx((0.01, 0.02, z))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "a.xacro",
            '<robot xmlns:xacro="http://ros.org/wiki/xacro"><xacro:property name="a"/></robot>',
            "expand it first",
        ),
        ("a.sdf", "<sdf><model>", "not valid XML"),
        ("a.sdf", "<sdf version='1.9'/>", "no <model>"),
        ("a.sdf", '<!DOCTYPE a [<!ENTITY b "c">]><sdf/>', "document type or entities"),
        ("a.yaml", "speed: 3", "no vehicle that is known"),
        ("a.txt", "hello world", "no vehicle that is known; allowed: SDF"),
        ("a.bin", "\x00\x01", "a.bin"),
    ],
)
def test_what_is_no_vehicle_is_one_line(name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        import_vehicle(written(tmp_path, name, text))


@pytest.mark.parametrize("tilted", [False, True])
def test_an_imported_vehicle_flies_the_square(tilted: bool, tmp_path: Path) -> None:
    source, target = written(tmp_path, "u.urdf", URDF), tmp_path / "u.yaml"
    if tilted:
        source = written(tmp_path, "10044_hex", tilted_hexacopter())
    ran = CliRunner().invoke(main, ["vehicle", "import", str(source), "--output", str(target)])
    assert ran.exit_code == 0, ran.output
    arguments = ["sim", "--scenario", "square", "--vehicle", str(target), "--no-report", "--json"]
    ran = CliRunner().invoke(main, [*arguments, "--output", str(tmp_path / "run")])
    assert ran.exit_code == 0, ran.output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["passed"]

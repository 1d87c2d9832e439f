"""What is believed beside what is true: kept where it is set, as installed where it is not."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim import Simulation
from quadsim.base.errors import InputError
from quadsim.estimation.eskf.layout import ZERO_VELOCITY
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.ros.graph.graph import describe
from quadsim.ros.runtime.topics import CONTACT, LANDED
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.installation import BelievedParams, as_installed
from quadsim.sim.scenario import load_scenario

#: Every sensor without errors: what is left is what is believed.
IDEAL = {"sensors": "ideal", "fly_on": "truth"}


def errors(name="hover", changes=None, seconds=12.0, **overrides):
    """Rotation in degrees about the world's axes, position and velocity: estimate less truth."""
    sure = {"estimator.start.field_T": 0.0}  # the field is as it is believed
    scenario = load_scenario(name, sure | (changes or {}), **(IDEAL | overrides))
    loop = ClosedLoop(scenario, log_hz=10.0)
    loop.fly(ends=lambda loop: loop.stamp_ns >= seconds * 1e9)
    rows = loop.rows()[-1]
    estimate = rows["estimate"]
    true, found = (Rotation.from_quat(np.roll(q, -1)) for q in (rows["q_WB"], estimate["q_WB"]))
    turn_W = (found * true.inv()).as_rotvec(degrees=True)
    return turn_W, estimate["p_W"] - rows["p_W"], loop


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mount.imu_roll_pitch_yaw_deg", [0.0, 0.0, 3.0]),
        ("mount.imu_position_B_m", [0.1, 0.0, 0.0]),
        ("mount.antenna_position_B_m", [0.3, 0.0, 0.0]),
        ("mount.rangefinder_position_B_m", [0.0, 0.1, 0.0]),
        ("magnetic_field_W_T", [2e-6, 2e-5, -4.4e-5]),
        ("gravity_mps2", 9.9),
        ("gravity_gradient_per_s2", 0.0),
        ("ground_height_m", 1.0),
        ("flat_ground", False),
        ("noise.gyro_scale", 0.1),
        ("noise.accel_bias_walk", 0.1),
        ("noise.gnss_correlated_share", 0.0),
        ("start.gyro_bias_radps", 0.5),
        ("start.field_bias_T", 0.0),
    ],
)
def test_what_is_set_is_kept(key, value):
    scenario = load_scenario("square", {f"estimator.{key}": value})
    found = scenario.estimator
    for part in key.split("."):
        found = getattr(found, part)
    assert (list(found) if isinstance(found, tuple) else found) == value
    # and nothing else has changed
    others = as_installed(
        EstimatorParams(), scenario.sensors, scenario.environment, scenario.scene.is_flat
    )
    assert scenario.estimator.noise.pressure_walk == others.noise.pressure_walk
    assert scenario.estimator.noise.gnss_correlation_s == others.noise.gnss_correlation_s


def test_what_a_file_sets_is_kept(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("mount: {antenna_position_B_m: [0.3, 0.0, 0.0]}\n")
    scenario = load_scenario("square", estimator=str(path))
    assert scenario.estimator.mount.antenna_position_B_m == (0.3, 0.0, 0.0)
    assert scenario.estimator.gravity_mps2 == scenario.environment.gravity_and_gradient()[0]


def test_what_is_not_set_is_as_installed():
    changes = {
        "sensors.imu.rotation_deg": [1.0, 2.0, 3.0],
        "sensors.gnss.position_B_m": [0.1, 0.2, 0.3],
        "sensors.imu.gyro_turn_on_sigma": 0.03,
    }
    found = load_scenario("square", changes).estimator
    assert found.mount.imu_roll_pitch_yaw_deg == (1.0, 2.0, 3.0)
    assert found.mount.antenna_position_B_m == (0.1, 0.2, 0.3)
    assert found.start.gyro_bias_radps == pytest.approx(0.03, rel=1e-3)
    assert (
        found.start.field_bias_T == load_scenario("square").sensors["magnetometer"].turn_on_sigma_T
    )


def test_no_error_of_belief_changes_nothing():
    plain = load_scenario("square")
    said = load_scenario("square", {"believed.declination_deg": 0.0, "believed.thrust": 1.0})
    assert said.estimator == plain.estimator
    assert said.airframe == plain.airframe


def test_an_error_of_what_was_set_is_refused():
    changes = {
        "believed.antenna_position_B_m": [0.1, 0.0, 0.0],
        "estimator.mount.antenna_position_B_m": [0.0, 0.0, 0.0],
    }
    with pytest.raises(InputError, match=r"believed.antenna_position_B_m: .* is set as well"):
        load_scenario("square", changes)


def test_who_errs_says_how_well_it_is_known():
    """By kind: a deviation that does not depend on the error, on top of the device's own."""
    plain = load_scenario("square").estimator
    assert (plain.mount.imu_sigma_deg, plain.start.lever_arm_m) == (0.0, 0.0)
    for size in (0.1, 1.0):
        found = load_scenario("square", {"believed.imu_roll_pitch_yaw_deg": [0.0, size, 0.0]})
        assert found.estimator.mount.imu_sigma_deg == 0.5
        assert found.estimator.start == plain.start
    found = load_scenario("square", {"believed.imu_position_B_m": [0.0, 0.01, 0.0]}).estimator
    assert (found.start.lever_arm_m, found.mount.imu_sigma_m) == (0.03, 0.03)
    assert found.noise.range_offset_m == pytest.approx(math.hypot(plain.noise.range_offset_m, 0.03))
    changes = {"believed.declination_deg": 1.0, "estimator.noise.range_offset_m": 0.5}
    changes["believed.rangefinder_position_B_m"] = [0.0, 0.0, 0.1]
    found = load_scenario("square", changes).estimator
    level_T = math.hypot(*plain.magnetic_field_W_T[:2])
    expected_T = math.hypot(plain.start.field_T, math.radians(2.0) * level_T)
    assert found.start.field_T == pytest.approx(expected_T)
    assert found.noise.range_offset_m == 0.5


def test_errors_of_the_field_turn_it():
    scenario = load_scenario("square")
    plain = np.array(scenario.estimator.magnetic_field_W_T)
    believed = BelievedParams(declination_deg=10.0, inclination_deg=5.0)
    found = as_installed(EstimatorParams(), {}, scenario.environment, errors=believed)
    east, north, up = found.magnetic_field_W_T
    assert math.degrees(math.atan2(east, north)) == pytest.approx(
        math.degrees(math.atan2(plain[0], plain[1])) + 10.0
    )
    dip = math.degrees(math.atan2(-up, math.hypot(east, north)))
    assert dip == pytest.approx(math.degrees(math.atan2(-plain[2], np.hypot(*plain[:2]))) + 5.0)
    assert np.linalg.norm(found.magnetic_field_W_T) == pytest.approx(np.linalg.norm(plain))


def test_controller_believes_another_thrust():
    plain = load_scenario("square")
    found = load_scenario("square", {"believed.thrust": 1.1, "believed_mass": 0.9}).airframe
    true = plain.airframe
    assert found.thrust_coefficient_N_s2 == pytest.approx(1.1 * true.thrust_coefficient_N_s2)
    assert found.mass_kg == pytest.approx(0.9 * true.mass_kg)
    assert found.inertia_kg_m2 == true.inertia_kg_m2


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["roll", "pitch", "yaw"])
def test_a_mount_error_turns_the_estimate_the_other_way(axis):
    """R_WB = R_WS R_BS^T: known is R_WS, so a mount believed 2 deg too far turns base_link back."""
    error = [0.0, 0.0, 0.0]
    error[axis] = 2.0
    # the body's level: its tilt on the ground and in hover is that of the world's axes
    changes = {
        "estimator.mount.imu_roll_pitch_yaw_deg": error,
        "estimator.start.accel_bias_mps2": 1e-3,
        "estimator.noise.accel_bias_walk": 0.0,
    }
    turn_W, _, loop = errors(changes=changes)
    true = Rotation.from_quat(np.roll(loop.rows()[-1]["q_WB"], -1))
    expected_W = -true.apply(error)
    assert turn_W == pytest.approx(expected_W, abs=0.1)


def test_an_error_of_declination_is_one_of_heading():
    """East of the truth by 5 deg: the field's direction is believed 5 deg clockwise of its own."""
    turn_W, _, _ = errors(changes={"believed.declination_deg": 5.0})
    assert turn_W == pytest.approx([0.0, 0.0, -5.0], abs=0.1)


def test_a_lever_arm_error_turns_with_the_vehicle():
    """In the square's turns the position is off by -R l, l = 0.3 m along the nose."""
    changes = {
        "believed.antenna_position_B_m": [0.3, 0.0, 0.0],
        "estimator.start.lever_arm_m": 0.0,  # else it is found
        "estimator.gate.chi2_3": 1e9,  # else fixes are refused in the turns
    }
    scenario = load_scenario("square", changes, fly_on="truth")
    loop = ClosedLoop(scenario, log_hz=10.0)
    loop.fly()
    rows = loop.rows()
    rows = rows[rows["stamp_ns"] > 8e9]
    offset_W = rows["estimate"]["p_W"] - rows["p_W"]
    R_WB = Rotation.from_quat(np.roll(rows["q_WB"], -1, axis=1))
    expected_W = -R_WB.apply([0.3, 0.0, 0.0])
    assert np.ptp(R_WB.as_euler("ZYX", degrees=True)[:, 0]) > 180.0
    slope = np.sum(offset_W * expected_W) / np.sum(expected_W**2)
    assert slope == pytest.approx(1.0, abs=0.05)  # attitude and velocity give way a little


def zero_velocities(landed, seconds):
    """How often the filter was told that the vehicle stands."""
    scenario = load_scenario("hover", {"landed": landed}, duration_s=seconds)
    loop = ClosedLoop(scenario)
    loop.fly(ends=lambda loop: loop.stamp_ns >= seconds * 1e9)
    line = loop.state["line"][0]
    return int(line["received"][ZERO_VELOCITY]), int(line["state"]["accepted"][ZERO_VELOCITY])


def test_standing_is_told_by_contact_as_in_the_graph():
    """Ten times a second on the ground, of which the filter takes those after its start."""
    received, _ = zero_velocities("contact", 1.5)
    assert 13 <= received <= 15
    # in the air nobody says so any more; the flight takes off at 2 s
    flying, accepted = zero_velocities("contact", 8.0)
    assert received < flying <= 25
    assert accepted >= 2 * 5
    assert zero_velocities("nobody", 8.0) == (0, 0)


def test_the_graph_hears_the_contact_where_the_scenario_says_so():
    for landed, expected in (("contact", ((LANDED.name, CONTACT.name),)), ("nobody", ())):
        nodes = describe(load_scenario("hover", {"landed": landed}))
        assert next(n for n in nodes if n.executable == "estimator").remappings == expected


def test_a_magnetometer_that_sits_otherwise_than_the_imu_is_refused():
    """Its field is taken in the IMU's axes: a square on an IMU turned by 90 degrees crashed."""
    with pytest.raises(InputError, match=r"magnetometer.rotation_deg \[0.* is not the IMU's \[0"):
        load_scenario("square", {"sensors.imu.rotation_deg": [0.0, 0.0, 90.0]})
    with pytest.raises(InputError, match="is not the IMU's"):
        load_scenario("square", {"sensors.magnetometer.rotation_deg": [180.0, 0.0, 0.0]})


@pytest.mark.parametrize("mount", [[180.0, 0.0, 0.0], [0.0, 0.0, 90.0], [30.0, 20.0, 10.0]])
@pytest.mark.parametrize("scenario", ["square", "indoor_square"])
def test_an_imu_flies_however_it_is_mounted(scenario, mount):
    """The start without a heading took the IMU's x for the nose: 1800 sigma off."""
    changes = {"sensors.imu.rotation_deg": mount}
    if scenario == "square":
        changes["sensors.magnetometer.rotation_deg"] = mount
    flight = Simulation(scenario, seed=3, changes=changes).run()
    assert flight.passed
    yaw = np.abs(flight.errors("eskf").yaw)
    assert np.nanmax(yaw) < 0.06

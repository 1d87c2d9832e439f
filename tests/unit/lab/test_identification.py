"""``quadsim identify``: figures of flown vehicles come back, and their intervals hold them."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from scipy.spatial.transform import Rotation

from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load, read_yaml
from quadsim.cli import identify as cli_identify
from quadsim.cli import main
from quadsim.lab.identify.equations import PLACES
from quadsim.lab.identify.figures import file_figures
from quadsim.lab.identify.flight_data import FlightData, StampedValues
from quadsim.lab.identify.identification import IdentifiedVehicle, identify_vehicle, vehicle_text
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import Track
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.vehicle.parameters import VehicleParams
from quadsim.wire.encode import Template, joint_template
from quadsim.world.air.atmosphere import air_density

#: The motors report at 100 Hz, as in the graph; IMU, commands and odometry come at 500 Hz.
REPORT = 5

FIGURES = (
    "thrust", "turn_x", "turn_y", "turn_z", "rotor_drag", "body_drag_x", "body_drag_y",
    "body_drag_z", "inflow", "time_constant_up", "time_constant_down",
)  # fmt: skip


def recorded(scenario: Scenario) -> tuple[FlightData, FlightData]:
    """What a bag of a flight holds: with the truth, and with the estimate."""
    loop = ClosedLoop(scenario, keep_samples=True, log_hz=scenario.imu.rate_hz)
    loop.fly()
    rows, imu, rotors = loop.rows(), loop.samples("imu"), len(scenario.vehicle.rotor_directions)
    speeds = StampedValues(
        rows["stamp_ns"][REPORT - 1 :: REPORT],
        rows["rotor_speed_radps"][REPORT - 1 :: REPORT, :rotors],
    )
    command = StampedValues(rows["stamp_ns"], rows["rotor_command_radps"][:, :rotors])
    samples = StampedValues(imu["stamp_ns"].copy(), np.hstack([imu["f_S"], imu["w_S"]]))
    density = float(air_density(loop.setup["environment"][0], 3.0))
    flown = [
        FlightData(
            "the loop",
            samples,
            Track(*(part[name] for name in ("stamp_ns", "p_W", "v_W", "q_WB", "w_B"))),
            exact,
            speeds,
            command,
            air_density_kg_m3=density,
        )
        for part, exact in ((rows, True), (rows["estimate"][1000:], False))
    ]
    return flown[0], flown[1]


def vehicle(name: str) -> VehicleParams:
    return load(VehicleParams, find("vehicles", name))


@cache
def flight(name: str, seed: int) -> tuple[FlightData, FlightData]:
    """The scenario ``identification``, flown on the default sensors."""
    return recorded(load_scenario("identification", vehicle=name, seed=seed))


@cache
def found(name: str, seed: int, exact: bool = True) -> IdentifiedVehicle:
    return identify_vehicle(flight(name, seed)[0 if exact else 1], vehicle(name))


def wide(params: VehicleParams) -> VehicleParams:
    """The same vehicle with every figure that a flight tells off by a third or more."""
    return replace(
        params,
        thrust_coefficient_N_s2=1.3 * params.thrust_coefficient_N_s2,
        inertia_kg_m2=tuple(1.5 * moment for moment in params.inertia_kg_m2),
        rotor_drag_N_s2=0.0,
        body_drag_N_s_m=(1.0, 0.0, 0.5),
        rolling_moment_N_s2=0.0,
        time_constant_up_s=0.08,
        time_constant_down_s=0.01,
    )


def truth_of(name: str) -> dict[str, float]:
    params = vehicle(name)
    return {
        **file_figures(params),
        "time_constant_up": params.time_constant_up_s,
        "time_constant_down": params.time_constant_down_s,
    }


# ---- figures come back -------------------------------------------------------------------------

FLIGHTS = [("x500", 1), ("phantom4", 3), ("hexacopter", 4)]
ONE_AND_MORE = [
    FLIGHTS[0],
    *(pytest.param(*more, marks=pytest.mark.thorough) for more in FLIGHTS[1:]),
]


@pytest.mark.many
@pytest.mark.parametrize(("name", "seed"), ONE_AND_MORE)
def test_figures_come_back_within_five_per_cent(name, seed):
    true = truth_of(name)
    result = found(name, seed)
    for figure in (result.figures[key] for key in FIGURES if true[key]):
        assert figure.origin == "flight", figure
        assert figure.value == pytest.approx(true[figure.name], rel=0.05), figure
        assert figure.high - figure.low < 2.0 * 0.05 * figure.value, figure


@pytest.mark.thorough
@pytest.mark.many
@pytest.mark.parametrize("exact", [True, False])
def test_intervals_hold_the_truth(exact):
    """Of all figures of all flights no more lie outside than chance takes out of 95 %."""
    inside = [
        figure.low <= truth_of(name)[figure.name] <= figure.high
        for name, seed in FLIGHTS
        for figure in found(name, seed, exact).figures.values()
    ]
    assert sum(inside) >= stats.binom.ppf(1e-3, len(inside), 0.95), inside


@pytest.mark.thorough
@pytest.mark.many
def test_the_search_does_not_need_to_begin_near():
    """From a file whose figures are off by a third or more come the same figures."""
    flown, _ = flight("x500", 1)
    result = identify_vehicle(flown, wide(vehicle("x500")))
    for name in FIGURES:
        assert result.figures[name].value == pytest.approx(
            found("x500", 1).figures[name].value, rel=2e-3
        ), name


# ---- what a recording is like ------------------------------------------------------------------


#: Where another IMU sits, and how it is turned: upside down, its x to the left.
ELSEWHERE_B_M = np.array([0.08, -0.05, 0.04])
R_BS = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])


def mounted_elsewhere(flown: FlightData) -> FlightData:
    """What an IMU that is turned and off the centre of mass would have read (rigid body)."""
    w_B = flown.odometry.w_B[: len(flown.imu)]
    w_dot_B = np.gradient(w_B, flown.imu.stamp_ns * 1e-9, axis=0)
    f_B, gyro_B = np.split(flown.imu.values, 2, axis=1)
    more_B = np.cross(w_dot_B, ELSEWHERE_B_M) + np.cross(w_B, np.cross(w_B, ELSEWHERE_B_M))
    more_B = 0.5 * (more_B + np.roll(more_B, 1, axis=0))  # of the sample's interval
    values = np.hstack([(f_B + more_B) @ R_BS, gyro_B @ R_BS])
    return replace(flown, imu=StampedValues(flown.imu.stamp_ns, values))


@pytest.mark.thorough
@pytest.mark.many
def test_slow_late_and_missing_messages_and_another_mount_change_nothing():
    """Odometry at 100 Hz and 15 ms late, IMU elsewhere and 5 ms late, a second of speeds lost."""
    flown = mounted_elsewhere(flight("x500", 1)[0])
    odometry = flown.odometry[slice(0, None, 5)]
    odometry = replace(odometry, stamp_ns=odometry.stamp_ns + 15_000_000)
    speeds = flown.motor_speed
    kept = (speeds.stamp_ns < 30 * 10**9) | (speeds.stamp_ns > 31 * 10**9)
    spoilt = replace(
        flown,
        imu=replace(flown.imu, stamp_ns=flown.imu.stamp_ns + 5_000_000),
        odometry=odometry,
        motor_speed=StampedValues(speeds.stamp_ns[kept], speeds.values[kept]),
    )
    result, clean = identify_vehicle(spoilt, vehicle("x500")), found("x500", 1)
    for name in FIGURES:
        figure = result.figures[name]
        assert figure.value == pytest.approx(truth_of("x500")[name], rel=0.05), figure
    assert result.grid.mount_deg == pytest.approx(180.0, abs=1.0)
    lever_m = result.solution.value[PLACES["lever"]]
    assert lever_m == pytest.approx(ELSEWHERE_B_M, abs=2e-3)
    # the IMU averages over 2 ms, which makes its samples 1 ms old
    assert result.late_s == pytest.approx([0.006, 0.015], abs=5e-4)
    # longer windows, at each of the moments in which a rotor idles too
    assert result.flown_s == pytest.approx(clean.flown_s - 1.0, abs=1.5)


@pytest.mark.many
def test_a_stretch_that_excites_little_says_so():
    """Turns and climbs in one place, on the filter's odometry: drag does not show."""
    _, flown = flight("x500", 1)
    inside = (flown.imu.stamp_ns > 15.5e9) & (flown.imu.stamp_ns < 34.0e9)
    imu = StampedValues(flown.imu.stamp_ns[inside], flown.imu.values[inside])
    params = vehicle("x500")
    result = identify_vehicle(replace(flown, imu=imu), params)
    assert not result.passed
    assert result.figures["thrust"].value == pytest.approx(truth_of("x500")["thrust"], rel=0.02)
    kept = [figure for figure in result.figures.values() if figure.origin == "kept"]
    assert kept
    assert all(figure.taken == figure.file_value for figure in kept)
    text = vehicle_text(result, read_yaml(find("vehicles", "x500")), "x500")
    assert "kept, the flight does not tell" in text


@pytest.mark.thorough
@pytest.mark.many
def test_what_a_file_neglects_is_found():
    """A hexacopter whose file knows no inflow and nothing of forward flight."""
    params, true = vehicle("hexacopter"), truth_of("hexacopter")
    missing = {"inflow_N_s2": 0.0, "translational_lift_N_s2_m2": 0.0}
    simple = replace(params, rotor=replace(params.rotor, **missing))
    result = identify_vehicle(flight("hexacopter", 4)[0], simple)
    for name in ("inflow", "translational_lift"):
        figure = result.figures[name]
        assert figure.origin == "found"
        assert figure.value == pytest.approx(true[name], rel=0.05)
    assert result.figures["turn_z"].value == pytest.approx(true["turn_z"], rel=0.05)


@pytest.mark.many
def test_a_flight_too_short_is_refused():
    flown, _ = flight("x500", 1)
    end = np.searchsorted(flown.motor_speed.stamp_ns, 9_000_000_000)
    speeds = StampedValues(flown.motor_speed.stamp_ns[:end], flown.motor_speed.values[:end])
    with pytest.raises(InputError, match=r"s of free flight .* allowed: at least 10 s"):
        identify_vehicle(replace(flown, motor_speed=speeds), vehicle("x500"))


@pytest.mark.many
def test_a_vehicle_that_stays_on_the_ground_is_refused():
    flown, _ = flight("x500", 1)
    still = replace(flown.odometry, p_W=np.zeros_like(flown.odometry.p_W))
    with pytest.raises(InputError, match="0 s of free flight"):
        identify_vehicle(replace(flown, odometry=still), vehicle("x500"))


@pytest.mark.thorough
@pytest.mark.many
def test_without_commands_the_time_constants_are_kept():
    flown, _ = flight("x500", 1)
    params = vehicle("x500")
    result = identify_vehicle(replace(flown, command=StampedValues.none(4)), params)
    assert not result.passed
    assert result.figures["time_constant_up"].origin == "kept"
    assert result.figures["time_constant_up"].taken == params.time_constant_up_s
    assert result.figures["thrust"].value == pytest.approx(truth_of("x500")["thrust"], rel=0.01)


# ---- the command -------------------------------------------------------------------------------


def write_bag(path: Path, data: FlightData, begin_s: float, end_s: float) -> Path:
    """A stretch of a flight as a bag."""
    flown, joints = data.odometry[::2], "sensor_msgs/msg/JointState"
    motors = joint_template([f"rotor_{i}" for i in range(data.motor_speed.values.shape[1])])
    f_B, w_B = np.split(data.imu.values, 2, axis=1)
    v_B = Rotation.from_quat(flown.q_WB, scalar_first=True).apply(flown.v_W, inverse=True)
    q_xyzw = np.roll(flown.q_WB, -1, axis=1)
    imu = Template.of("sensor_msgs/msg/Imu", "imu_link")
    odometry = Template.of("nav_msgs/msg/Odometry", "map", "base_link")
    topics = (
        ("imu/data_raw", "sensor_msgs/msg/Imu", imu, data.imu, {"w": w_B, "f": f_B}),
        ("ground_truth/odom", "nav_msgs/msg/Odometry", odometry, flown,
         {"p": flown.p_W, "q_xyzw": q_xyzw, "v": v_B, "w": flown.w_B}),
        ("motor_speed", joints, motors, data.motor_speed, {"speeds": data.motor_speed.values}),
        ("command_motor_speed", joints, motors, data.command, {"speeds": data.command.values}),
    )  # fmt: skip
    rows = [
        (int(stamp_ns), topic, type_name, content)
        for topic, type_name, template, signal, columns in topics
        for stamp_ns, content in zip(
            signal.stamp_ns, template.payloads(signal.stamp_ns, **columns), strict=True
        )
        if begin_s * 1e9 <= stamp_ns < end_s * 1e9
    ]
    with BagWriter(path) as bag:
        for stamp_ns, topic, type_name, content in sorted(rows, key=lambda row: row[0]):
            bag.add(f"/quad/{topic}", type_name, None, stamp_ns, content)
    return path


def run(*arguments: str):
    return CliRunner().invoke(main.main, list(arguments))


@pytest.fixture(scope="module")
def flown_bag(tmp_path_factory) -> Path:
    """A minute in the air, from after the take-off to before the landing."""
    return write_bag(tmp_path_factory.mktemp("bags") / "flown", flight("x500", 1)[0], 8.0, 66.0)


@pytest.mark.many
def test_a_bag_becomes_a_vehicle_file(flown_bag, tmp_path, capsys):
    """The file is a vehicle, with the flight's figures and the rest of --vehicle's."""
    base = tmp_path / "guess.yaml"
    text = find("vehicles", "x500").read_text().replace("8.54858e-06", "9.9e-06")
    base.write_text(text.replace("[0.1, 0.1, 0.15]", "[0.5, 0.0, 0.0]"))
    path = tmp_path / "mine.yaml"
    result = run(
        "identify", str(flown_bag), "--vehicle", str(base), "--output", str(path), "--json"
    )
    assert result.exit_code in (0, 1), result.stderr
    said = json.loads(result.stdout)
    assert said["passed"] is (result.exit_code == 0)
    assert said["file"] == str(path)
    # 58 s but for one or two in which one rotor or another idles, to turn the vehicle, and 12 s of
    # descents by more than 1.45 m/s
    assert said["flown_s"] == pytest.approx(44.4, abs=1.0)
    mine, true = load(VehicleParams, path), vehicle("x500")
    assert mine.thrust_coefficient_N_s2 == pytest.approx(true.thrust_coefficient_N_s2, rel=0.01)
    assert mine.inertia_kg_m2 == pytest.approx(true.inertia_kg_m2, rel=0.05)
    assert mine.body_drag_N_s_m == pytest.approx(true.body_drag_N_s_m, rel=0.05)
    assert mine.rotor_positions_B_m == true.rotor_positions_B_m
    assert mine.contact == true.contact
    figure = next(figure for figure in said["figures"] if figure["name"] == "thrust")
    assert figure["low"] < figure["value"] < figure["high"]
    assert figure["file_value"] == pytest.approx(9.9e-06 / 2.0643)
    assert "+-1 %" in path.read_text()
    cli_identify._show(said)
    table = capsys.readouterr().out
    assert "measured odometry" in table
    assert "95 % interval" in table
    again = run("identify", str(flown_bag), "--output", str(path))
    assert again.exit_code == 2
    assert again.stderr.startswith(f"quadsim: error: {path}: exists already")


def test_a_bag_with_too_little_in_it_is_refused(circle_bag, write_rows, circle_rows, tmp_path):
    """The circle is flown by rotors that turn at one speed: it lasts, but 2 s of it do not."""
    few = [item for item in circle_rows if item.stamp_ns < 3_000_000_000]
    output = str(tmp_path / "new.yaml")
    result = run("identify", str(write_rows(few, "short")), "--output", output)
    assert result.exit_code == 2
    assert "s of free flight in which IMU, odometry and motor speeds are all there" in result.stderr
    without = [item for item in circle_rows if not item.topic.endswith("motor_speed")]
    result = run("identify", str(write_rows(without, "deaf")), "--output", output)
    assert result.exit_code == 2
    assert "no topic /quad/motor_speed" in result.stderr
    assert run("identify", str(tmp_path / "none"), "--output", output).exit_code == 2

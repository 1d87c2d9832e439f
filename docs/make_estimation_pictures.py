"""Make the pictures and the figures of docs/estimation.md; the pictures need Chromium.

python docs/make_estimation_pictures.py

Flights are those of the tests (tests/helpers/matched_flights.py), the IMUs those of config/sensors.
It prints one JSON object with the figures of the tables.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots
from scipy import stats

from quadsim.analysis.report.figures import RUNS, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.base.records import KINEMATICS
from quadsim.estimation import EstimatorParams
from quadsim.estimation.eskf.layout import ANTENNA, BA, BG, TERRAIN, THETA, N, P, V
from quadsim.estimation.eskf.parameters import AlignParams, MountingParams, NoiseParams
from quadsim.sensors.devices import load_device
from quadsim.sensors.imu import MODEL, ImuParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.sim.scenario import as_installed
from quadsim.world.environment import EnvironmentParams

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from matched_flights import START_NS, Flight, MatchedRun, Motion, Sensors, flight, halved, nees

Array = NDArray[np.float64]
IMAGES = Path(__file__).parent / "images"
G = 9.80665

#: An antenna and an IMU beside the centre, and biases that walk enough to be seen.
MATCHED = replace(
    EstimatorParams(),
    noise=NoiseParams(
        accel_bias_walk=5e-3,
        gyro_bias_walk=1e-3,
        pressure_walk=0.05,
        field_bias_walk=1e-8,
        range_correlation_s=0.0,
        gnss_correlated_share=0.5,
        gnss_correlation_s=20.0,
    ),
    start=AlignParams(field_bias_T=5e-8, field_T=5e-8),
    mount=MountingParams(
        imu_position_B_m=(0.05, -0.02, 0.03),
        imu_roll_pitch_yaw_deg=(10.0, -20.0, 30.0),
        antenna_position_B_m=(0.05, -0.02, 0.03),
    ),
)
EPOCHS_S = np.arange(1.5, 20.01, 0.25)
CLAIMS: dict[str, tuple[str, ...]] = {
    "all as they are": (),
    "accelerometer halved": ("accel",),
    "gyroscope halved": ("gyro",),
    "fixes halved": ("gnss_position", "gnss_velocity"),
}

#: Those that these flights carry, up to the field's; all but the terrain are compared.
CARRIED = ANTENNA
STATES = CARRIED - 1

DEVICES = ("adis16448", "icm42688p", "mpu6000")
CLASS_SEEDS, LOST_S, GAP_S = 16, 20.0, 30


def averages(seeds: int = 100) -> dict[str, Array]:
    """Average NEES over the seeds, divided by its number of states, for each set of claims.

    Without the terrain, which a flat ground does not need.
    """
    path = flight(20.0, mount=MATCHED.mount)
    result = {}
    for label, names in CLAIMS.items():
        sensors = halved(Sensors(), *names)
        runs = [MatchedRun(path, seed, MATCHED, sensors).errors(EPOCHS_S) for seed in range(seeds)]
        used = np.delete(np.arange(CARRIED), TERRAIN)
        errors = np.array([run.state for run in runs])[..., used]
        covariances = np.array([run.covariance for run in runs])[..., used[:, None], used]
        result[label] = nees(errors, covariances).mean(axis=0) / STATES
    return result


def consistency_picture(found: dict[str, Array], seeds: int = 100) -> go.Figure:
    """NEES of a matched filter and of three that are told half of a deviation."""
    figure = go.Figure()
    low, high = (x / (STATES * seeds) for x in stats.chi2.interval(0.95, STATES * seeds))
    figure.add_hrect(y0=low, y1=high, fillcolor="#0072b2", opacity=0.18, line_width=0)
    for (label, values), colour in zip(found.items(), RUNS, strict=False):
        figure.add_scatter(x=EPOCHS_S, y=values, name=label, line={"color": colour, "width": 2})
    figure.update_xaxes(title_text="time, s")
    figure.update_yaxes(title_text="average NEES / states", type="log", dtick="D1")
    style(figure, 480)
    figure.update_layout(legend={"y": 1.1}, hovermode=False, margin={"t": 70})
    return figure


@dataclass(frozen=True)
class Drift:
    """Horizontal error in a gap, root mean square of an axis, at each second of it.

    ``stated`` is the filter's deviation, ``theory`` the closed form from the state at the loss and
    the figures of the device's file. ``aided`` goes on with field, pressure and gravity.
    """

    measured_m: Array
    stated_m: Array
    theory_m: Array
    aided_measured_m: Array
    aided_stated_m: Array
    median_m: float
    recoveries: int  # before the loss


def truths(path: Flight) -> NDArray[np.record]:
    """The flight as the sensors take it."""
    result: NDArray[np.record] = np.zeros(len(path.t), KINEMATICS)
    x, y, z, w = path.R_WB.as_quat().T
    result["stamp_ns"] = START_NS + np.arange(len(path.t)) * round(path.dt * 1e9)
    result["p_W"], result["v_W"] = path.p_W, path.v_W
    result["q_WB"] = np.column_stack([w, x, y, z])
    result["w_B"][1:] = path.w_B
    result["a_W"] = np.gradient(path.v_W, path.dt, axis=0)
    return result


def samples(device: ImuParams, path: Flight, seed: int) -> tuple[Array, Array]:
    """What the device says of the flight."""
    quick = replace(device, latency_s=0.0)
    sensor = SimulatedSensor(MODEL, quick, EnvironmentParams(), seed, "quad")
    rows = []
    for truth in truths(path):
        sample = sensor.measure(truth)
        if sample is not None:
            rows.append((*sample.f_S, *sample.w_S))
    found = np.array(rows)[-len(path.f_S) :]
    return np.ascontiguousarray(found[:, :3]), np.ascontiguousarray(found[:, 3:])


def walks(device: ImuParams) -> tuple[float, float]:
    """Random walk of the biases; an instability walks by 2 s^2 / T while short of T."""
    accel = device.accel_bias_walk[0] ** 2 + (
        2.0 * device.accel_instability[0] ** 2 / device.accel_instability_time_s
    )
    gyro = device.gyro_bias_walk[0] ** 2 + (
        2.0 * device.gyro_instability[0] ** 2 / device.gyro_instability_time_s
    )
    return float(np.sqrt(accel)), float(np.sqrt(gyro))


def told(device: ImuParams) -> EstimatorParams:
    """A filter that knows the device's file as its installer does, and its walks."""
    accel_walk, gyro_walk = walks(device)
    walking = replace(
        EstimatorParams(),
        noise=NoiseParams(accel_bias_walk=accel_walk, gyro_bias_walk=gyro_walk),
        start=AlignParams(accel_bias_mps2=1e-6, gyro_bias_radps=1e-6),
    )
    known = as_installed(walking, {"imu": device}, EnvironmentParams())
    return replace(EstimatorParams(), noise=known.noise, start=known.start)


def theory_m2(device: ImuParams, path: Flight, covariance: Array, t_s: Array) -> Array:
    """Closed form of the variance of an axis of a level vehicle; see tests of the outage."""
    R = path.R_WS[round(LOST_S / path.dt)].as_matrix()
    accel, gyro = device.accel_noise_density[0] ** 2, device.gyro_noise_density[0] ** 2
    accel_walk, gyro_walk = walks(device)
    total = np.zeros(len(t_s))
    for i, t in enumerate(t_s):
        for axis, (about, sign) in enumerate(((1, 1.0), (0, -1.0))):
            row = np.zeros(N)
            row[P + axis], row[V + axis] = 1.0, t
            row[THETA + about] = sign * 0.5 * G * t**2
            row[BA : BA + 3] = -0.5 * t**2 * R[axis]
            row[BG : BG + 3] = -sign * G * t**3 / 6.0 * R[about]
            total[i] += 0.5 * row @ covariance @ row
        total[i] += accel * t**3 / 3.0 + (accel_walk**2 + G**2 * gyro) * t**5 / 20.0
        total[i] += (G * gyro_walk) ** 2 * t**7 / 252.0
    return total


def read_out(name: str) -> ImuParams:
    """A device of config/sensors, read at 200 Hz."""
    device = load_device("imu", name)
    assert isinstance(device, ImuParams)
    return replace(device, rate_hz=200.0)


def calibrated(device: ImuParams) -> ImuParams:
    """The same without errors of scale and axes, which are no states of the filter."""
    return replace(
        device, accel_scale_sigma=0.0, accel_cross_axis_sigma=0.0, gyro_scale_sigma=0.0,
        gyro_cross_axis_sigma=0.0, gyro_g_sensitivity=(0.0, 0.0, 0.0),
    )  # fmt: skip


def drift(device: ImuParams) -> Drift:
    """One device over the seeds: fixes for twenty seconds, then none for thirty."""
    rate_hz = device.rate_hz
    path = flight(LOST_S + GAP_S + 1.0, 1.0 / rate_hz, motion=Motion())
    sensors = Sensors(
        fix_m=(0.5, 0.5, 0.9), speed_mps=(0.05, 0.05, 0.1), field_T=3e-7, pressure_pa=2.0,
        every={"gnss_position": round(rate_hz / 5), "gnss_velocity": round(rate_hz / 5),
               "magnetic_field": round(rate_hz / 50), "pressure": round(rate_hz / 25)},
        silent=dict.fromkeys(("gnss_position", "gnss_velocity"), (LOST_S, 1e9)),
    )  # fmt: skip
    errors = np.zeros((2, CLASS_SEEDS, GAP_S + 1, 2))
    variances = np.zeros_like(errors)
    at_loss, recoveries = [], 0
    for seed in range(CLASS_SEEDS):
        run = MatchedRun(path, seed, told(device), sensors)
        run.f_S, run.w_S = samples(device, path, seed)
        noise = np.diag(device.accel_variance()), np.diag(device.gyro_variance())
        run.covariance = np.concatenate([np.ravel(each) for each in noise])
        run.fly(LOST_S)
        recoveries += int(run.record[0]["recoveries"])
        at_loss.append(np.array(run.record[0]["covariance"]))
        lost, k = run.lines.copy(), run.k
        for blind in (0, 1):
            if blind:
                run.lines[:], run.k = lost, k
                run.lines["blind"] = 1
                run.lines["params"]["fusion"]["gravity_after_s"] = 1e9
            for second in range(GAP_S + 1):
                errors[blind, seed, second] = run.state_error()[P : P + 2]
                variances[blind, seed, second] = np.diag(run.record[0]["covariance"])[P : P + 2]
                if second < GAP_S:
                    run.fly(1.0)
    measured = np.sqrt(np.mean(errors**2, axis=(1, 3)))
    stated = np.sqrt(np.mean(variances, axis=(1, 3)))
    theory = theory_m2(device, path, np.mean(at_loss, axis=0), np.arange(GAP_S + 1.0))
    median = float(np.median(np.linalg.norm(errors[1, :, -1], axis=1)))
    return Drift(
        measured[1], stated[1], np.sqrt(theory), measured[0], stated[0], median, recoveries
    )


def outage_picture(found: dict[str, Drift]) -> go.Figure:
    """Error, claim and theory of each device, on the IMU alone and with field and pressure."""
    figure = make_subplots(
        1, 2, shared_yaxes=True, horizontal_spacing=0.04,
        subplot_titles=("the IMU alone", "with field, pressure, gravity's direction"),
    )  # fmt: skip
    t_s = np.arange(GAP_S + 1)
    for (name, drifted), colour in zip(found.items(), RUNS, strict=False):
        for column, measured, stated in (
            (1, drifted.measured_m, drifted.stated_m),
            (2, drifted.aided_measured_m, drifted.aided_stated_m),
        ):
            lines = [(measured, "measured", "solid"), (stated, "stated", "dash")]
            if column == 1:
                lines.append((drifted.theory_m, "theory", "dot"))
            for values, what, dash in lines:
                figure.add_scatter(
                    x=t_s, y=values, name=f"{name}, {what}", showlegend=column == 1,
                    line={"color": colour, "dash": dash, "width": 2}, row=1, col=column,
                )  # fmt: skip
    figure.update_xaxes(title_text="time without fixes, s")
    figure.update_yaxes(title_text="rms error of an axis, m", row=1, col=1)
    style(figure, 480)
    figure.update_layout(legend={"y": 1.24}, hovermode=False, margin={"t": 95})
    return figure


def main() -> None:
    """Draw both pictures and print what the tables hold."""
    IMAGES.mkdir(exist_ok=True)
    found = averages()
    save_picture(consistency_picture(found), IMAGES / "estimation_consistency.png", 1000, 480)
    drifts = {name: drift(calibrated(read_out(name))) for name in DEVICES}
    whole = {name: drift(read_out(name)) for name in DEVICES}
    save_picture(outage_picture(drifts), IMAGES / "estimation_outage.png", 1200, 480)
    table = {
        name: {
            "theory_m": round(float(d.theory_m[-1]), 2),
            "stated_m": round(float(d.stated_m[-1]), 2),
            "measured_m": round(float(d.measured_m[-1]), 2),
            "median_horizontal_m": round(d.median_m, 2),
            "aided_stated_m": round(float(d.aided_stated_m[-1]), 2),
            "aided_measured_m": round(float(d.aided_measured_m[-1]), 2),
            "with_all_errors_m": round(float(whole[name].measured_m[-1]), 2),
            "with_all_errors_stated_m": round(float(whole[name].stated_m[-1]), 2),
            "with_all_errors_median_m": round(whole[name].median_m, 2),
            "with_all_errors_aided_m": round(float(whole[name].aided_measured_m[-1]), 2),
            "with_all_errors_aided_stated_m": round(float(whole[name].aided_stated_m[-1]), 2),
            "recoveries": [d.recoveries, whole[name].recoveries],
        }
        for name, d in drifts.items()
    }
    shares = {label: round(float(values.mean()), 2) for label, values in found.items()}
    print(json.dumps({"nees": shares, "drift_at_30_s": table}))


if __name__ == "__main__":
    main()

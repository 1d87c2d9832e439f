"""Node ``driver`` on DDS: sensors are exchanged in flight, commands and services reach a vehicle."""

from __future__ import annotations

import math

import numpy as np
import pymap3d
import pytest
from geometry_msgs.msg import AccelStamped, TwistWithCovarianceStamped
from nav_msgs.msg import Odometry
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import FluidPressure, Imu, LaserScan, MagneticField, NavSatFix
from std_srvs.srv import SetBool

from quadsim.nodes import qos
from quadsim.nodes.graph import GraphOptions, NodeSpec, describe
from quadsim.nodes.processes import maker
from quadsim.sim.scenario import load_scenario

#: A box on the vehicle, with conventions of its own: forward, right, down; north, east, down;
#: microtesla, hectopascals; a lidar of one ray for the height.
BOX = """
description: a box
namespace: box
topics:
  - {ours: imu/data_raw, names: [imu], type: sensor_msgs/msg/Imu, body: frd, reliability: reliable, depth: 200}
  - {ours: imu/mag, names: [compass], type: sensor_msgs/msg/MagneticField, body: frd, scale: 1.0e-6, sigma: [5.0e-7]}
  - {ours: imu/static_pressure, names: [pressure], type: sensor_msgs/msg/FluidPressure, scale: 100.0, sigma: [5.0]}
  - {ours: gps/fix, names: [fix], type: sensor_msgs/msg/NavSatFix, sigma: [0.05, 0.05, 0.1]}
  - {ours: gps/vel, names: [velocity], type: geometry_msgs/msg/TwistWithCovarianceStamped, world: ned, sigma: [0.1]}
  - {ours: range/down, names: ["*/scan"], type: sensor_msgs/msg/LaserScan, sigma: [0.02]}
"""  # noqa: E501
FRD = np.diag([1.0, -1.0, -1.0])
NED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
NODES = {
    "imu": ("imu/data_raw",),
    "gnss": ("gps/fix", "gps/vel"),
    "magnetometer": ("imu/mag",),
    "barometer": ("imu/static_pressure",),
    "rangefinder": ("range/down",),
}


def xyz(field, values) -> None:
    field.x, field.y, field.z = map(float, values)


def array(field):
    return np.array([field.x, field.y, field.z])


class Box:
    """Measures the truth without noise, by formulas of its own."""

    def __init__(self, bench, environment) -> None:
        self._node = bench.node
        self._datum = environment.datum
        self._m_W = np.array(environment.field_W_T())
        self._a_B: dict[int, np.ndarray] = {}
        self.on: set[str] = set()
        self.heights: list[float] = []
        self.tilts: list[float] = []
        self.stamp_ns = 0
        kinds = {
            "imu": Imu, "compass": MagneticField, "pressure": FluidPressure, "fix": NavSatFix,
            "velocity": TwistWithCovarianceStamped, "eye/scan": LaserScan,
        }  # fmt: skip
        self._out = {
            name: bench.node.create_publisher(kind, f"/quad/box/{name}", qos.FAST)
            for name, kind in kinds.items()
        }
        self._kinds = kinds
        node = bench.node
        node.create_subscription(
            AccelStamped, "/quad/ground_truth/accel", self._on_accel, qos.FAST
        )
        node.create_subscription(Odometry, "/quad/ground_truth/odom", self._on_truth, qos.FAST)

    def _send(self, name, header, **fields) -> None:
        message = self._kinds[name](header=header, **fields)
        self._out[name].publish(message)

    def _on_accel(self, message) -> None:
        stamp = message.header.stamp
        self._a_B[stamp.sec * 10**9 + stamp.nanosec] = array(message.accel.linear)

    def _on_truth(self, message) -> None:
        stamp = message.header.stamp
        self.stamp_ns = stamp.sec * 10**9 + stamp.nanosec
        p_W = array(message.pose.pose.position)
        q = message.pose.pose.orientation
        R_WB = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
        self.heights.append(p_W[2])
        self.tilts.append(math.acos(min(1.0, R_WB[2, 2])))
        tick = self.stamp_ns // 2_000_000
        header = message.header
        a_B = self._a_B.pop(self.stamp_ns, None)
        if "imu" in self.on and a_B is not None:
            sample = Imu(header=header)
            f_B = a_B + R_WB.T @ [0.0, 0.0, 9.80665]
            xyz(sample.linear_acceleration, FRD @ f_B)
            xyz(sample.angular_velocity, FRD @ array(message.twist.twist.angular))
            self._out["imu"].publish(sample)
        if "magnetometer" in self.on and tick % 10 == 0:
            sample = MagneticField(header=header)
            xyz(sample.magnetic_field, 1e6 * FRD @ R_WB.T @ self._m_W)
            self._out["compass"].publish(sample)
        if "barometer" in self.on and tick % 10 == 0:
            height_m = self._datum.height_m + p_W[2]  # ICAO standard atmosphere
            hectopascals = 1013.25 * (1.0 - 0.0065 * height_m / 288.15) ** 5.25588
            self._send("pressure", header, fluid_pressure=hectopascals)
        if "rangefinder" in self.on and tick % 20 == 0 and p_W[2] > 0.2:
            self._send(
                "eye/scan", header, range_min=0.1, range_max=20.0,
                ranges=[float(p_W[2] / R_WB[2, 2])],
            )  # fmt: skip
        if "gnss" in self.on and tick % 50 == 0:
            place = (self._datum.latitude_deg, self._datum.longitude_deg, self._datum.height_m)
            latitude, longitude, height = pymap3d.enu2geodetic(*p_W, *place)
            self._send(
                "fix", header, latitude=float(latitude), longitude=float(longitude),
                altitude=float(height),
            )  # fmt: skip
            sample = TwistWithCovarianceStamped(header=header)
            xyz(sample.twist.twist.linear, NED @ R_WB @ array(message.twist.twist.linear))
            self._out["velocity"].publish(sample)


def test_every_sensor_is_exchanged_in_flight(bench, tmp_path):
    """One after the other: the box's begins, ours ends, and the flight goes on."""
    (tmp_path / "box.yaml").write_text(BOX)
    scenario = load_scenario("hover")
    options = GraphOptions(pacing="lockstep", rate=0.0, paused=True, arm=True)
    driver = NodeSpec(
        "driver", "/quad", {"drivers": str(tmp_path / "box.yaml"), "send": False}
    )
    made = {
        spec.executable: bench.add(maker(spec)(bench.context))
        for spec in [*describe(scenario, options), driver]
    }
    made["autopilot"].set_parameters([])
    box = Box(bench, scenario.environment)
    bench.until(lambda: all(made[n].complete for n in made if n != "driver"), 60.0)
    pause = SetBool.Request(data=False)
    bench.call(SetBool, "/sim/pause", pause)

    def fly_to(seconds: float) -> None:
        bench.until(lambda: box.stamp_ns >= seconds * 1e9, 120.0)

    fly_to(5.0)
    print(box.heights[-1], bench.reports.get("/quad/driver"))

"""Arguments of ``hil.launch.py``: what is real, and how it is flown."""

from __future__ import annotations

from dataclasses import dataclass, field

from quadsim.bag.profiles import Recording
from quadsim.base.options import option
from quadsim.ros.graph.options import FirmwareSource, Record

#: Structures in which the vehicle stands in for a real one.
STANDS_IN = ("basic", "sil")


@dataclass(frozen=True)
class HilOptions:
    """What is real, and how it is flown: arguments of ``hil.launch.py``.

    Attributes:
        apparitions: topics (Odometry) of things that the virtual sensors alone see, and that need
            not be there from the beginning; their sizes stand behind those of the others.
    """

    structure: str = option("hil", "what is real", choices=("basic", "sil", "hil", "target"))
    drivers: str = option(
        "",
        "of the vehicle: files of config/drivers, with commas; needed in hil, target",
    )
    fleet: str = option(
        "",
        "hil, target: a file of vehicles, each with drivers, guard and planner of its own",
        unset="drivers names them",
    )
    vehicles: int = option(1, "hil, target: /quad1, /quad2, ...", ge=1, le=50)
    driver_namespace: str = option(
        "/",
        "what stands before the drivers' topics: /uav1",
        unset="/; of several /quad1, ..., or /NAME",
    )
    pose: str = option("", "our topic of its pose", unset="the first that the drivers give")
    relay: bool = option(False, "the pose goes into the vehicle's own estimator too")
    setpoints: tuple[str, ...] = option(
        (),
        "what the guard takes besides velocities, with commas: position, attitude, rates",
        unset="none",
    )
    pose_frame: str = option("map", "the frame that poses name; it must be z up")
    world: str = option("flat", "the virtual world: a file of worlds, or a path")
    lidar: str = option(
        "virtual_lidar",
        "a file of config/sensors, or a path; target: of the real one, for its place",
        unset="none",
    )
    lidar_position: tuple[float, float, float] | None = option(
        None, "of the lidar in base_link, x,y,z", "m", unset="as in its file"
    )
    lidar_rotation: tuple[float, float, float] | None = option(
        None, "its roll,pitch,yaw", "deg", unset="as in its file"
    )
    level: bool = option(True, "the virtual lidar stays level")
    depth_camera: str = option(
        "",
        "a depth camera ahead (realsense_d455): a file of config/sensors, or a path; target: of"
        " the real one, for its place",
        unset="none",
    )
    camera_position: tuple[float, float, float] | None = option(
        None, "of the depth camera in base_link, x,y,z", "m", unset="as in its file"
    )
    camera_rotation: tuple[float, float, float] | None = option(
        None, "its roll,pitch,yaw", "deg", unset="as in its file"
    )
    rangefinder: str = option(
        "", "a virtual range finder: a file of config/sensors, or a path", unset="none"
    )
    optical_flow: str = option(
        "", "an optical flow sensor (px4flow) lent to the vehicle: a file, or a path", unset="none"
    )
    visual_odometry: str = option(
        "", "a visual odometry (vio_euroc) lent to the vehicle: a file, or a path", unset="none"
    )
    guard: str = option(
        "default",
        "a file of config/guards, or a path; hil, target: one with the vehicle's own brakes",
    )
    planner: str = option("default", "a file of config/planners, or a path", unset="none of ours")
    vehicle: str = option(
        "", "for robot_description: a file of config/vehicles, or a path", unset="none"
    )
    dead_man_button: int = option(
        -1, "which of joy's buttons; -1: the topic dead_man (Bool) instead"
    )
    others: tuple[str, ...] = option((), "topics (Odometry) of other vehicles, with commas")
    others_pose: tuple[str, ...] = option((), "topics (PoseStamped) of other vehicles, with commas")
    others_radius: tuple[float, ...] = option(
        (0.4,), "of other vehicles, one for all or one for each", "m"
    )
    others_height: tuple[float, ...] = option(
        (0.4,), "of other vehicles, one for all or one for each", "m"
    )
    rehearsal: str = option(
        "pillars", "basic, sil: the vehicle that stands in, a file of config/rehearsals"
    )
    seed: int = option(1, "basic, sil: of vehicle, link and noise")
    firmware: FirmwareSource = field(default_factory=FirmwareSource)
    lent: tuple[str, ...] = option(
        (), "what Gazebo lends, with commas: lidar, camera", unset="none"
    )
    record: Record = "true"
    recording: Recording = field(default_factory=Recording)
    apparitions: tuple[str, ...] = ()

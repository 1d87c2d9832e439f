"""Messages with the poses of several bodies, as drivers of motion capture publish them.

Their packages need not be installed, nor a bag define them: they are read by the definitions of
motion_capture_tracking_interfaces and mocap4r2_msgs, as of 2025.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from quadsim.base.errors import QuadsimError
from quadsim.wire.encode import cached_template
from quadsim.wire.standard import POSE


class Bodies(NamedTuple):
    """How a type lists its bodies.

    Attributes:
        bodies: field with all of them.
        name: field with the name of one.
        definitions: type to text of what is not standard, itself included.
    """

    bodies: str
    name: str
    definitions: dict[str, str]


_TRACKING, _MOCAP4R2 = "motion_capture_tracking_interfaces", "mocap4r2_msgs"
TYPES = {
    f"{_TRACKING}/msg/NamedPoseArray": Bodies(
        "poses",
        "name",
        {
            f"{_TRACKING}/msg/NamedPose": "string name\ngeometry_msgs/Pose pose\n",
            f"{_TRACKING}/msg/NamedPoseArray": "std_msgs/Header header\n"
            f"{_TRACKING}/NamedPose[] poses\n",
        },
    ),
    f"{_MOCAP4R2}/msg/RigidBodies": Bodies(
        "rigidbodies",
        "rigid_body_name",
        {
            f"{_MOCAP4R2}/msg/Marker": "int8 id_type\nint32 marker_index\nstring marker_name\n"
            "geometry_msgs/Point translation\n",
            f"{_MOCAP4R2}/msg/RigidBody": f"string rigid_body_name\n{_MOCAP4R2}/Marker[] markers\n"
            "geometry_msgs/Pose pose\n",
            f"{_MOCAP4R2}/msg/RigidBodies": "std_msgs/Header header\nuint32 frame_number\n"
            f"{_MOCAP4R2}/RigidBody[] rigidbodies\n",
        },
    ),
}


@lru_cache(maxsize=1)
def body_types() -> Typestore:
    """The standard types and these."""
    types = get_typestore(Stores.ROS2_KILTED)
    for kind in TYPES.values():
        for name, text in kind.definitions.items():
            types.register(get_types_from_msg(text, name))
    return types


def pose_of(type_name: str, payload: bytes, vehicle: str, alone: bool = True) -> bytes | None:
    """The PoseStamped of one body.

    Args:
        type_name: one of :data:`TYPES`.
        vehicle: name of the body; where none has it, the only one there is.
        alone: whether there is one vehicle; of several the name alone counts.

    Returns:
        None: it is not seen.

    Raises:
        QuadsimError: the message does not fit its type, or it has several others.
    """
    kind = TYPES[type_name]
    try:
        message: Any = body_types().deserialize_cdr(payload, type_name)
    except Exception as error:  # rosbags lets through what numpy and struct raise
        raise QuadsimError(f"no {type_name} ({error})") from None
    bodies = getattr(message, kind.bodies)
    names = [getattr(body, kind.name) for body in bodies]
    if vehicle not in names and not alone:
        return None
    if vehicle not in names and len(bodies) > 1:
        raise QuadsimError(f"of {', '.join(names)} none is called {vehicle}")
    if not bodies:
        return None
    pose = bodies[names.index(vehicle) if vehicle in names else 0].pose
    stamp, p, q = message.header.stamp, pose.position, pose.orientation
    template = cached_template(POSE, (message.header.frame_id,))
    stamp_ns = stamp.sec * 1_000_000_000 + stamp.nanosec
    return template.payload(stamp_ns, p=(p.x, p.y, p.z), q_xyzw=(q.x, q.y, q.z, q.w))

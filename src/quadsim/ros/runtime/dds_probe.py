"""Two nodes pass one message; prints the seconds it took. Run as a module by ``doctor``."""

from __future__ import annotations

import sys
import time

PATIENCE_S = 15.0


def probe() -> int:
    """Publish until the other node has heard; 0 when it has."""
    import rclpy
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.node import Node
    from std_msgs.msg import String

    from quadsim.ros.runtime.dds_environment import set_log_folder

    set_log_folder()
    heard: list[str] = []
    start_s = time.monotonic()
    contexts = [Context(), Context()]  # two participants, so that the message crosses DDS
    for context in contexts:
        rclpy.init(context=context)
    speaker = Node("quadsim_doctor_speaker", context=contexts[0])
    listener = Node("quadsim_doctor_listener", context=contexts[1])
    executor = SingleThreadedExecutor(context=contexts[1])
    executor.add_node(listener)
    publisher = speaker.create_publisher(String, "/quadsim_doctor", 1)
    listener.create_subscription(String, "/quadsim_doctor", lambda m: heard.append(m.data), 1)
    while not heard and time.monotonic() - start_s < PATIENCE_S:
        publisher.publish(String(data="well"))
        executor.spin_once(timeout_sec=0.05)
    executor.shutdown()
    for node, context in ((speaker, contexts[0]), (listener, contexts[1])):
        node.destroy_node()
        rclpy.shutdown(context=context)
    if not heard:
        sys.stderr.write(f"no message passed within {PATIENCE_S:g} s\n")
        return 1
    sys.stdout.write(f"{time.monotonic() - start_s:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(probe())

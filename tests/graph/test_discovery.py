"""Processes find each other at once, whenever they start."""

import os
import socket
import subprocess
import sys
import time

#: RTPS 2.3, 9.6.1.1: port of a participant's discovery, and how many participants are asked for.
PORT_BASE, DOMAIN_GAIN, PARTICIPANT_GAIN, UNICAST, PARTICIPANTS = 7400, 250, 2, 10, 32
#: How often ours says it within 10 s. By itself Fast DDS says it five times within half a second,
#: then every 3 s: at most 9 times.
WITHIN_S, OFTEN = 10.0, 10

NODE = """
import sys
import rclpy
from quadsim.ros.runtime.dds_environment import set_dds_environment
set_dds_environment()
rclpy.init(domain_id=int(sys.argv[1]))
node = rclpy.create_node("somebody")
sys.stdin.read()
"""


def test_a_participant_says_for_seconds_that_it_is_there(domain):
    """Its answer to a later one may be lost: that one is not ready yet when it asks."""
    last = UNICAST + PARTICIPANT_GAIN * (PARTICIPANTS - 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", PORT_BASE + DOMAIN_GAIN * domain + last))
        ear.settimeout(60.0)
        words = [sys.executable, "-c", NODE, str(domain)]
        node = subprocess.Popen(words, stdin=subprocess.PIPE, env=dict(os.environ))
        try:
            ear.recv(65536)
            begin_s = time.monotonic()
            for _ in range(OFTEN - 1):
                ear.recv(65536)
            assert time.monotonic() - begin_s < WITHIN_S
        finally:
            node.kill()
            node.communicate()

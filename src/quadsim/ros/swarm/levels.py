"""How much the node ``swarm`` publishes of each vehicle."""

from __future__ import annotations

#: Truth and estimates; with the IMU's samples; with every sensor.
LEVELS = ("estimates", "imu", "all")

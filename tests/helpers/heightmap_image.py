"""Heightmaps as the grey images that Gazebo reads."""

import numpy as np
from PIL import Image


def write_heightmap(terrain, path):
    """Write a square terrain with 16 bits; its ``<size>`` and ``<pos>`` in a world file."""
    lowest, height = float(terrain.heights_m.min()), float(np.ptp(terrain.heights_m))
    share = (terrain.heights_m - lowest) / height if height > 0.0 else 0.0 * terrain.heights_m
    image = Image.fromarray(np.flipud(np.round(65535.0 * share)).astype(np.uint16))
    image.save(path, format="PNG")
    return (*terrain.size_m, height), (*terrain.center_W_m, lowest)

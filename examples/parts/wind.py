"""A wind of one's own: a thermal whose core lies at a place."""

import numpy as np


class Thermal:
    def __init__(self, core_W_m=(3.0, 0.0), radius_m=2.0, up_mps=2.0):
        self.core_W_m, self.radius_m, self.up_mps = np.array(core_W_m), radius_m, up_mps

    def velocity(self, time_s, p_W):
        away = np.linalg.norm(p_W[:2] - self.core_W_m) / self.radius_m
        return [0.0, 0.0, self.up_mps * (1.0 - away**2) * np.exp(-(away**2))]

"""A criterion of one's own: how hard the flight shakes a passenger, RMS jerk in m/s^3."""

import numpy as np


class Jerk:
    def __init__(self, from_s=5.0):
        self.from_s = from_s

    def value(self, flight):
        time_s = (flight.truth.stamp_ns - flight.start_ns) * 1e-9
        jerk = np.diff(flight.truth.v_W, n=2, axis=0) / np.diff(time_s)[:-1, None] ** 2
        return np.sqrt(np.mean(np.sum(jerk[time_s[2:] >= self.from_s] ** 2, axis=1)))

"""A sensor of one's own: a beacon system that measures the position indoors (UWB)."""


class Beacons:
    rate_hz = 20.0
    measures = "position"  # the filter fuses it
    sigma = 0.1

    def __init__(self, rng, sigma_m=0.1):
        self.rng, self.sigma = rng, sigma_m

    def sample(self, now):
        if self.rng.random() < 0.05:
            return None  # lost
        return now.state.p_W + self.rng.normal(0.0, self.sigma, 3)

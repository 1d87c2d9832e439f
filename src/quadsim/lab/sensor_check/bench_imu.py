"""An IMU on the bench: pushed and turned as its experiments want it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.lab.sensor_check.bench import Truth, alone, at_rest
from quadsim.lab.sensor_check.proof import Proof

Array = NDArray[np.float64]

#: Of the sample: specific force, rate.
CHANNELS = {"accel": "f_S", "gyro": "w_S"}

#: What the bench shows where a motion is wanted: m/s^2 and rad/s.
PUSH_MPS2, SPIN_RADPS = 10.0, 1.0


def pushed(gravity_mps2: float, f: Any = (0.0, 0.0, 0.0), w: Any = (0.0, 0.0, 0.0)) -> Truth:
    """A truth, level, whose specific force is f and whose rate is w, at one instant."""
    return at_rest(a_W=(f[0], f[1], f[2] - gravity_mps2), w_B=w)


class ImuBench:
    """What the experiments share."""

    def __init__(self, proof: Proof) -> None:
        self.proof, self.bench, self.params = proof, proof.bench, proof.params
        self.gravity_mps2 = proof.bench.environment.gravity_and_gradient()[0]
        self.calm = pushed(self.gravity_mps2)

    def alone(self, *names: str, **others: Any) -> Any:
        """With some figures; the sample is that of an instant, so that the bench may push."""
        return alone(self.params, *names, **{"sampling": "point", **others})

    def once(self, params: Any, truth: Truth) -> dict[str, Array]:
        """First sample: (3,) by channel."""
        sample = self.bench.run(params, "certain", 1, truth)
        return {name: sample[field][0] for name, field in CHANNELS.items()}

    def response(self, name: str, *figures: str) -> Array:
        """(3, 3) what each axis reads of a unit along each axis of the body."""
        size = PUSH_MPS2 if name == "accel" else SPIN_RADPS
        columns = []
        for axis in range(3):
            along = size * np.eye(3)[axis]
            push, spin = (along, np.zeros(3)) if name == "accel" else (np.zeros(3), along)
            truth = pushed(self.gravity_mps2, push, spin)
            columns.append(self.once(self.alone(*figures), truth)[name] / size)
        return np.stack(columns, axis=1)

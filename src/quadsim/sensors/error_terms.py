"""Kinds of errors that a sensor's parameters are the sizes of, declared with each parameter.

``quadsim sensors check`` measures a parameter by its kind
(:data:`quadsim.lab.sensor_check.experiments.TERMS`).
"""

from __future__ import annotations

from functools import partial

from quadsim.base.parameters import Spec

#: Always the same, once what it acts on is shown: bias, scale, misalignment, limit.
Constant = partial(Spec, term="constant")
#: Drawn anew for each unit or at each switch-on.
TurnOn = partial(Spec, term="turn-on")
#: Deviation of white noise, of a sample.
White = partial(Spec, term="white")
#: Density of white noise.
WhiteDensity = partial(Spec, term="white density")
#: Density of a random walk.
RandomWalk = partial(Spec, term="random walk")
#: Deviation of a Gauss-Markov process; its correlation time is ``<name>_time_s``.
GaussMarkov = partial(Spec, term="Gauss-Markov")
#: Distance of the counts.
Quantisation = partial(Spec, term="quantisation")
#: Probability that a reading is missed.
Dropout = partial(Spec, term="dropout")
#: Time constant of a first-order lag.
Lag = partial(Spec, term="lag")
#: How far a sensor warms itself.
WarmingUp = partial(Spec, term="warm-up")
#: Attitude of the sensor on the vehicle.
Turn = partial(Spec, term="rotation")
#: Samples a second.
Rate = partial(Spec, term="rate")
#: From the sample to its publication.
Delay = partial(Spec, term="latency")
#: Deviation of the stamp.
Jitter = partial(Spec, term="jitter")
#: Probability that a sample is lost.
Loss = partial(Spec, term="loss")

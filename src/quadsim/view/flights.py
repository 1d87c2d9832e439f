"""Flights of the closed loop, and logs of flights in general, drawn whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import rerun as rr

from quadsim.control.parameters import FenceParams
from quadsim.sim.log import Array, FlightLog, Track
from quadsim.sim.scenario import Scenario
from quadsim.vehicle.parameters import VehicleParams
from quadsim.view.layout import layout
from quadsim.view.scenery import Place, draw_scene
from quadsim.view.vehicle import BLIND, ESTIMATE, REFERENCE, TRUTH, VehicleView


"""A node's services of simulation_interfaces, without a node."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from interface_definitions import Services

from quadsim.base.errors import InputError
from quadsim.base.records import KINEMATICS
from quadsim.ros.simulation import spawned
from quadsim.ros.simulation.simulated_time import SimulationServices
from quadsim.ros.simulation.spawned import SimulatedWorld, Spawned


class Simulation:
    """Two vehicles that stand in the air, and who is told what."""

    def __init__(self):
        self.paused, self.now_ns, self.resets, self.refuses = False, 0, 0, ""
        self.quads = {name: np.zeros(1, KINEMATICS)[0] for name in ("quad1", "quad2")}
        quad = self.quads["quad2"]
        quad["stamp_ns"], quad["p_W"], quad["v_W"] = 3_000_000_001, (1, 2, 3), (4, 5, 6)
        # it looks north: its nose's axis is the world's y
        quad["q_WB"], quad["w_B"] = (math.sqrt(0.5), 0, 0, math.sqrt(0.5)), (0.1, 0.0, 0.3)
        self.quads["quad1"]["q_WB"][0] = 1.0
        self.seen, self.told, self.published = [], [], []
        self.where_nothing_can_be, self.world_file = "", "forest"
        self.world = SimulatedWorld(
            name=lambda: self.world_file,
            now_ns=lambda: self.now_ns,
            truths=lambda: self.quads,
            place=self._place,
            outline_m=lambda: (0.3, 0.2),
            scene=list,
            see=self._see,
            tell=lambda *words: self.told.append(words),
        )

    def _place(self, name, motion):
        if self.where_nothing_can_be:
            raise InputError(self.where_nothing_can_be)
        self.quads[name] = motion

    def _see(self, scene):
        self.seen = scene

    def pause(self, paused):
        self.paused = paused

    def reset(self):
        self.resets += not self.refuses
        return self.refuses

    def step(self):
        self.spawned.step(self.now_ns, 2_000_000)
        self.now_ns += 2_000_000
        return self.now_ns


@pytest.fixture
def simulation():
    return Simulation()


@pytest.fixture
def offer(monkeypatch, simulation):
    """Offers the services, as a version of the package that may lack some has them."""

    def offered(*left_out):
        services = Services(monkeypatch, left_out)
        # a scene here is a list of obstacles
        monkeypatch.setattr(spawned, "scene_with", lambda scene, others: [*scene, *others])
        node = SimpleNamespace(
            create_service=services.create_service,
            offer=lambda _: SimpleNamespace(publish=simulation.published.append),
        )
        simulation.spawned = Spawned(node, simulation.world)
        SimulationServices(node, simulation, simulation.world, simulation.spawned)
        return services

    return offered


@pytest.fixture
def call(offer):
    return offer()

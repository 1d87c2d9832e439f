"""The services of simulation_interfaces, against its definitions (2.x, comments left out)."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import Accel, Pose, Twist
from std_msgs.msg import Header

from quadsim.base.records import KINEMATICS
from quadsim.ros.parts import simulation_services as module

RESULT = """uint8 RESULT_FEATURE_UNSUPPORTED = 0
uint8 RESULT_OK = 1
uint8 RESULT_NOT_FOUND = 2
uint8 RESULT_INCORRECT_STATE = 3
uint8 RESULT_OPERATION_FAILED = 4
uint8 result
string error_message"""
STATE = """uint8 STATE_STOPPED = 0
uint8 STATE_PLAYING = 1
uint8 STATE_PAUSED = 2
uint8 STATE_QUITTING = 3
uint8 STATE_NO_WORLD = 4
uint8 STATE_LOADING_WORLD = 5
uint8 state"""
FEATURES = """uint8 SPAWNING = 0
uint8 ENTITY_STATE_GETTING = 10
uint8 ENTITY_STATE_SETTING = 11
uint8 SIMULATION_RESET = 20
uint8 SIMULATION_RESET_TIME = 21
uint8 SIMULATION_RESET_STATE = 22
uint8 SIMULATION_RESET_SPAWNED = 23
uint8 SIMULATION_STATE_GETTING = 24
uint8 SIMULATION_STATE_SETTING = 25
uint8 SIMULATION_STATE_PAUSE = 26
uint8 STEP_SIMULATION_SINGLE = 31
uint8 STEP_SIMULATION_MULTIPLE = 32
uint8 STEP_SIMULATION_ACTION = 33
uint16[] features
string[] spawn_formats
string custom_info"""
DEFINITIONS = {
    "msg/Result": RESULT,
    "msg/SimulationState": STATE,
    "msg/SimulatorFeatures": FEATURES,
    "msg/EntityFilters": "string filter",
    "msg/EntityState": "Header header\nPose pose\nTwist twist\nAccel acceleration",
    "srv/GetSimulatorFeatures": "---\nSimulatorFeatures features",
    "srv/GetSimulationState": "---\nSimulationState state\nResult result",
    "srv/SetSimulationState": "SimulationState state\n---\nuint8 ALREADY_IN_TARGET_STATE = 101\n"
    "uint8 STATE_TRANSITION_ERROR = 102\nuint8 INCORRECT_TRANSITION = 103\nResult result",
    "srv/ResetSimulation": "uint8 SCOPE_DEFAULT = 0\nuint8 SCOPE_TIME = 1\nuint8 SCOPE_STATE = 2\n"
    "uint8 SCOPE_SPAWNED = 4\nuint8 SCOPE_ALL = 255\nuint8 scope\n---\nResult result",
    "srv/StepSimulation": "uint64 steps 1\n---\nResult result",
    "srv/GetEntities": "EntityFilters filters\n---\nResult result\nstring[] entities",
    "srv/GetEntityState": "string entity\n---\nResult result\nEntityState state",
    "srv/GetEntitiesStates": "EntityFilters filters\n---\nResult result\nstring[] entities\n"
    "EntityState[] states",
}
STANDARD = {"Header": Header, "Pose": Pose, "Twist": Twist, "Accel": Accel}


def class_of(text):
    """What rosidl makes of a definition: constants of the class, fields that cannot be others."""
    lines = [line.split() for line in text.splitlines() if line]
    fields = {words[1]: words for words in lines if "=" not in words}

    class Made:
        __slots__ = tuple(fields)

        def __init__(self):
            for name, (kind, *rest) in fields.items():
                number = int(rest[1]) if len(rest) > 1 else 0
                made = [] if kind.endswith("]") else "" if kind == "string" else number
                if kind in STANDARD:
                    made = STANDARD[kind]()
                elif f"msg/{kind}" in DEFINITIONS:
                    made = MESSAGES[f"msg/{kind}"]()
                setattr(self, name, made)

    for words in lines:
        if "=" in words:
            setattr(Made, words[1], int(words[3]))
    return Made


MESSAGES = {name: class_of(text) for name, text in DEFINITIONS.items() if name[0] == "m"}
SERVICES = {
    name: SimpleNamespace(
        Request=class_of(text.partition("---")[0]), Response=class_of(text.partition("---")[2])
    )
    for name, text in DEFINITIONS.items()
    if name[0] == "s"
}
OK, UNSUPPORTED, NOT_FOUND, FAILED = 1, 0, 2, 4
STOPPED, PLAYING, PAUSED, QUITTING = range(4)


class Simulation:
    def __init__(self):
        self.paused, self.now_ns, self.resets, self.refuses = False, 0, 0, ""

    def pause(self, paused):
        self.paused = paused

    def reset(self):
        self.resets += not self.refuses
        return self.refuses

    def step(self):
        self.now_ns += 2_000_000
        return self.now_ns


@pytest.fixture
def simulation():
    return Simulation()


@pytest.fixture
def call(monkeypatch, simulation):
    """Ask a service by its name."""
    monkeypatch.setattr(module, "is_installed", lambda _: True)
    monkeypatch.setattr(
        module, "message_class", lambda name: (MESSAGES | SERVICES)[name.partition("/")[2]]
    )
    quads = {name: np.zeros(1, KINEMATICS)[0] for name in ("quad1", "quad2")}
    quad = quads["quad2"]
    quad["stamp_ns"], quad["p_W"], quad["v_W"] = 3_000_000_001, (1, 2, 3), (4, 5, 6)
    # it looks north: its nose's axis is the world's y
    quad["q_WB"], quad["w_B"] = (math.sqrt(0.5), 0, 0, math.sqrt(0.5)), (0.1, 0.0, 0.3)
    offered = {}
    node = SimpleNamespace(
        create_service=lambda kind, name, asked: offered.update({name: (kind, asked)})
    )
    module.SimulationServices(node, simulation, lambda: quads)

    def ask(name, **fields):
        kind, asked = offered[f"/sim/{name}"]
        request = kind.Request()
        for field, value in fields.items():
            owner, _, last = field.rpartition("__")
            setattr(getattr(request, owner) if owner else request, last, value)
        return asked(request, kind.Response())

    return ask


def test_features_are_those_whose_services_are_there(call):
    assert sorted(call("get_simulator_features").features.features) == [
        10, 20, 22, 24, 25, 26, 31, 32,
    ]  # fmt: skip


def test_states_lead_to_each_other_as_the_definition_says(call, simulation):
    def set_to(state):
        return call("set_simulation_state", state__state=state).result.result

    def state():
        return call("get_simulation_state").state.state

    assert state() == PLAYING
    assert set_to(PLAYING) == 101
    assert set_to(PAUSED) == OK
    assert (state(), simulation.paused) == (PAUSED, True)
    assert set_to(STOPPED) == OK
    assert (state(), simulation.paused, simulation.resets) == (STOPPED, True, 1)
    assert set_to(PAUSED) == 103  # pausing when in stopped state
    assert set_to(QUITTING) == UNSUPPORTED
    simulation.step()
    assert state() == PAUSED
    simulation.refuses = "nothing is reset"
    assert set_to(STOPPED) == 102
    assert set_to(PLAYING) == OK
    assert (state(), simulation.paused) == (PLAYING, False)


def test_steps_are_made_while_it_is_paused_alone(call, simulation):
    assert call("step_simulation", steps=3).result.result == FAILED
    simulation.paused = True
    assert call("step_simulation").result.result == OK  # one, by the definition's default
    assert call("step_simulation", steps=3).result.result == OK
    assert simulation.now_ns == 8_000_000


@pytest.mark.parametrize(
    ("scope", "result"),
    [(0, OK), (2, OK), (255, OK), (6, OK), (1, UNSUPPORTED), (3, UNSUPPORTED), (4, UNSUPPORTED)],
)
def test_a_reset_is_of_the_state(call, simulation, scope, result):
    answer = call("reset_simulation", scope=scope).result
    assert (answer.result, simulation.resets) == (result, int(result == OK))
    assert bool(answer.error_message) == (result != OK)
    if result == OK:
        simulation.refuses = "a file is wrong"
        answer = call("reset_simulation", scope=scope).result
        assert (answer.result, answer.error_message) == (FAILED, "a file is wrong")


def test_entities_are_the_vehicles_with_their_true_motion(call):
    assert call("get_entities").entities == ["quad1", "quad2"]
    assert call("get_entities", filters__filter="2$").entities == ["quad2"]
    assert call("get_entities", filters__filter="(").result.result == FAILED
    answer = call("get_entity_state", entity="quad2")
    state = answer.state
    assert (answer.result.result, state.header.frame_id) == (OK, "map")
    assert (state.header.stamp.sec, state.header.stamp.nanosec) == (3, 1)
    assert (state.pose.position.x, state.pose.orientation.z) == pytest.approx((1, math.sqrt(0.5)))
    assert state.twist.linear.z == 6.0
    angular = state.twist.angular
    assert (angular.x, angular.y, angular.z) == pytest.approx((0.0, 0.1, 0.3))
    missing = call("get_entity_state", entity="quad3").result
    assert (missing.result, missing.error_message) == (NOT_FOUND, "'quad3'; known: quad1, quad2")
    both = call("get_entities_states")
    assert [each.pose.position.x for each in both.states] == [0.0, 1.0]


def test_without_the_package_nothing_is_offered(monkeypatch, simulation):
    monkeypatch.setattr(module, "is_installed", lambda _: False)
    module.SimulationServices(SimpleNamespace(), simulation, dict)

"""Time and state by the services of simulation_interfaces, against its definitions."""

from types import SimpleNamespace

import pytest

from quadsim.ros.simulation import interfaces
from quadsim.ros.simulation.simulated_time import SimulationServices
from quadsim.ros.simulation.spawned import Spawned

OK, UNSUPPORTED, NOT_FOUND, FAILED = 1, 0, 2, 4
STOPPED, PLAYING, PAUSED, QUITTING = range(4)


#: Feature to the service that it tells of, as the comments of SimulatorFeatures say.
NEEDED = {
    "SPAWNING": "spawn_entity", "DELETING": "delete_entity", "NAMED_POSES": "get_named_poses",
    "POSE_BOUNDS": "get_named_pose_bounds", "ENTITY_TAGS": "get_entities",
    "ENTITY_BOUNDS": "get_entity_bounds", "ENTITY_BOUNDS_BOX": "get_entities",
    "ENTITY_BOUNDS_CONVEX": "", "ENTITY_CATEGORIES": "get_entities",
    "SPAWNING_RESOURCE_STRING": "spawn_entity", "ENTITY_STATE_GETTING": "get_entity_state",
    "ENTITY_STATE_SETTING": "set_entity_state", "ENTITY_INFO_GETTING": "get_entity_info",
    "ENTITY_INFO_SETTING": "set_entity_info", "SPAWNABLES": "get_spawnables",
    "SIMULATION_RESET": "reset_simulation", "SIMULATION_RESET_TIME": "",
    "SIMULATION_RESET_STATE": "reset_simulation", "SIMULATION_RESET_SPAWNED": "reset_simulation",
    "SIMULATION_STATE_GETTING": "get_simulation_state",
    "SIMULATION_STATE_SETTING": "set_simulation_state",
    "SIMULATION_STATE_PAUSE": "set_simulation_state",
    "STEP_SIMULATION_SINGLE": "step_simulation", "STEP_SIMULATION_MULTIPLE": "step_simulation",
    "STEP_SIMULATION_ACTION": "", "WORLD_LOADING": "load_world",
    "WORLD_RESOURCE_STRING": "load_world", "WORLD_TAGS": "", "WORLD_UNLOADING": "unload_world",
    "WORLD_INFO_GETTING": "get_current_world", "AVAILABLE_WORLDS": "get_available_worlds",
    "SPAWNING_ENTITIES": "spawn_entities",
}  # fmt: skip


def test_features_are_those_whose_services_are_there(call):
    told = call("get_simulator_features").features
    numbers = {name: getattr(type(told), name) for name in NEEDED}
    there = {name for name, service in NEEDED.items() if f"/sim/{service}" in call.offered}
    assert sorted(told.features) == sorted(numbers[name] for name in there)
    assert told.spawn_formats == ["sdf"]


def test_an_older_version_has_fewer(offer):
    """Of 1.0: no SpawnEntities, and codes that came later are a failure."""
    call = offer("srv/SpawnEntities", "msg/SpawnEntity", "msg/SpawnResult")
    features = call("get_simulator_features").features.features
    assert 0 in features
    assert 50 not in features
    del call.classes["srv/SetEntityState"].Response.INVALID_POSE
    assert call("set_entity_state", entity="quad1", set_pose=True,
                state__header__frame_id="elsewhere").result.result == FAILED  # fmt: skip


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
    assert call("step_simulation", steps=2**63).result.result == FAILED


@pytest.mark.parametrize(
    ("scope", "result"),
    [(0, OK), (2, OK), (255, OK), (6, OK), (4, OK), (1, UNSUPPORTED), (3, UNSUPPORTED)],
)
def test_a_reset_is_of_the_state_and_not_of_the_time(call, simulation, scope, result):
    answer = call("reset_simulation", scope=scope).result
    assert (answer.result, simulation.resets) == (result, int(result == OK and scope != 4))
    assert bool(answer.error_message) == (result != OK)
    if simulation.resets:
        simulation.refuses = "a file is wrong"
        answer = call("reset_simulation", scope=scope).result
        assert (answer.result, answer.error_message) == (FAILED, "a file is wrong")


def test_without_the_package_nothing_is_offered(monkeypatch, simulation):
    monkeypatch.setattr(interfaces, "is_installed", lambda _: False)
    node = SimpleNamespace()
    SimulationServices(node, simulation, simulation.world, Spawned(node, simulation.world))

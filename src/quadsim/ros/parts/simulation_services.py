"""The services that simulators share (simulation_interfaces), of ``dynamics`` and ``swarm``.

They are ``/sim/get_simulator_features`` and so on, where the package is installed. What is not
among the features that are told has no service: nothing can be spawned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from quadsim.base.compiled import plain
from quadsim.geometry.rotation import rotate
from quadsim.ros.messages.cdr import put_xyz
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime.packages import is_installed
from quadsim.ros.runtime.topics import message_class

PACKAGE = "simulation_interfaces"
#: What is offered: constants of its SimulatorFeatures.
FEATURES = (
    "ENTITY_STATE_GETTING", "SIMULATION_RESET", "SIMULATION_RESET_STATE",
    "SIMULATION_STATE_GETTING", "SIMULATION_STATE_SETTING", "SIMULATION_STATE_PAUSE",
    "STEP_SIMULATION_SINGLE", "STEP_SIMULATION_MULTIPLE",
)  # fmt: skip
TELLS = "quadsim: reset, pause and steps of a flight; vehicles are those of the launch"


class Steppable(Protocol):
    """What makes simulated time; :class:`~quadsim.ros.parts.simulated_time.SimulatedTime`."""

    paused: bool

    @property
    def now_ns(self) -> int:
        """Simulated time."""
        ...

    def pause(self, paused: bool) -> None:
        """Stop simulated time, or let it go on."""
        ...

    def reset(self) -> str:
        """Bring all back to the start; why not, in words."""
        ...

    def step(self) -> int:
        """Make one step; simulated time, ns."""
        ...


class SimulationServices:
    """Offers the services.

    Args:
        node: whose services these are.
        simulation: what they act on.
        truths: name of each vehicle to its KINEMATICS now.
    """

    def __init__(
        self, node: Any, simulation: Steppable, truths: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._simulation, self._truths = simulation, truths
        self._stopped_ns = -1  # when it was stopped
        if not is_installed(f"{PACKAGE}/srv/GetSimulatorFeatures"):
            return
        self._result = message_class(f"{PACKAGE}/msg/Result")
        self._states = message_class(f"{PACKAGE}/msg/SimulationState")
        for kind, asked in (
            ("GetSimulatorFeatures", self._features),
            ("GetSimulationState", self._state),
            ("SetSimulationState", self._set_state),
            ("ResetSimulation", self._reset),
            ("StepSimulation", self._step),
            ("GetEntities", self._entities),
            ("GetEntityState", self._entity_state),
            ("GetEntitiesStates", self._entities_states),
        ):
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
            node.create_service(message_class(f"{PACKAGE}/srv/{kind}"), f"/sim/{name}", asked)

    def _say(self, response: Any, result: str | int = "RESULT_OK", words: str = "") -> Any:
        """Set the result of an answer: a constant of Result, or a number of the service's own."""
        number = getattr(self._result, result) if isinstance(result, str) else result
        response.result.result, response.result.error_message = number, words
        return response

    @property
    def _now(self) -> int:
        """The state that it is in."""
        states, simulation = self._states, self._simulation
        if not simulation.paused:
            return int(states.STATE_PLAYING)
        stopped = simulation.now_ns == self._stopped_ns
        return int(states.STATE_STOPPED if stopped else states.STATE_PAUSED)

    def _features(self, _: Any, response: Any) -> Any:
        features = message_class(f"{PACKAGE}/msg/SimulatorFeatures")
        response.features.features = [getattr(features, name) for name in FEATURES]
        response.features.custom_info = TELLS
        return response

    def _state(self, _: Any, response: Any) -> Any:
        response.state.state = self._now
        return self._say(response)

    def _set_state(self, request: Any, response: Any) -> Any:
        """Play, pause, or stop, which is to pause and to reset."""
        wanted, states, kind = request.state.state, self._states, type(response)
        if wanted == self._now:
            return self._say(response, kind.ALREADY_IN_TARGET_STATE, "it is in that state")
        if wanted not in (states.STATE_STOPPED, states.STATE_PLAYING, states.STATE_PAUSED):
            return self._say(response, "RESULT_FEATURE_UNSUPPORTED", "end the graph by a signal")
        if wanted == states.STATE_PAUSED and self._now == states.STATE_STOPPED:
            return self._say(response, kind.INCORRECT_TRANSITION, "it is stopped; play first")
        refused = self._simulation.reset() if wanted == states.STATE_STOPPED else ""
        if refused:
            return self._say(response, kind.STATE_TRANSITION_ERROR, refused)
        self._simulation.pause(wanted != states.STATE_PLAYING)
        if wanted == states.STATE_STOPPED:
            self._stopped_ns = self._simulation.now_ns
        return self._say(response)

    def _reset(self, request: Any, response: Any) -> Any:
        """Vehicles back to their start; time goes on, so that no node sees it jump."""
        kind = type(request)
        whole = request.scope in (kind.SCOPE_DEFAULT, kind.SCOPE_ALL)
        if not whole and request.scope & (kind.SCOPE_STATE | kind.SCOPE_TIME) != kind.SCOPE_STATE:
            words = "allowed: SCOPE_STATE, SCOPE_DEFAULT, SCOPE_ALL; simulated time goes on"
            return self._say(response, "RESULT_FEATURE_UNSUPPORTED", words)
        refused = self._simulation.reset()
        return self._say(response, "RESULT_OPERATION_FAILED" if refused else "RESULT_OK", refused)

    def _step(self, request: Any, response: Any) -> Any:
        if not self._simulation.paused:
            return self._say(response, "RESULT_OPERATION_FAILED", "it plays; pause first")
        for _ in range(request.steps):
            self._simulation.step()
        return self._say(response)

    def _named(self, filters: Any, response: Any) -> dict[str, Any] | None:
        """Vehicles whose names fit a filter; None: it is no expression, which the answer says."""
        try:
            fits = re.compile(filters.filter)
        except re.error as error:
            self._say(response, "RESULT_OPERATION_FAILED", f"filter {filters.filter!r}: {error}")
            return None
        return {name: truth for name, truth in self._truths().items() if fits.search(name)}

    def _entities(self, request: Any, response: Any) -> Any:
        found = self._named(request.filters, response)
        if found is None:
            return response
        response.entities = list(found)
        return self._say(response)

    def _entities_states(self, request: Any, response: Any) -> Any:
        found = self._named(request.filters, response)
        if found is None:
            return response
        made = message_class(f"{PACKAGE}/msg/EntityState")
        response.entities = list(found)
        response.states = [put_state(made(), truth) for truth in found.values()]
        return self._say(response)

    def _entity_state(self, request: Any, response: Any) -> Any:
        truth = self._truths().get(request.entity)
        if truth is None:
            known = ", ".join(self._truths())
            return self._say(response, "RESULT_NOT_FOUND", f"{request.entity!r}; known: {known}")
        put_state(response.state, truth)
        return self._say(response)


def put_state(state: Any, truth: Any) -> Any:
    """Write a KINEMATICS into an EntityState: all in the world, ``map``."""
    q_WB = truth["q_WB"].tolist()
    state.header.frame_id, state.header.stamp = "map", make_time(int(truth["stamp_ns"]))
    put_xyz(state.pose.position, truth["p_W"])
    orientation = state.pose.orientation
    orientation.w, orientation.x, orientation.y, orientation.z = q_WB
    for part, linear_W, angular_B in (
        (state.twist, "v_W", "w_B"), (state.acceleration, "a_W", "w_dot_B"),
    ):  # fmt: skip
        put_xyz(part.linear, truth[linear_W])
        put_xyz(part.angular, plain(rotate)(tuple(q_WB), tuple(truth[angular_B].tolist())))
    return state

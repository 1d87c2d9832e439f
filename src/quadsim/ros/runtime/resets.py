"""What a node does on ``/sim/reset``: it reads its files again, then it begins anew.

Files are the scenario with all that it names (parameter ``scenario``, which the graph sets), or
without one the node's own file. A parameter changes if what the files say of it has changed and if
it still is what they stated before: what was given otherwise stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter

from quadsim.base.errors import InputError
from quadsim.base.levels import OK, WARN
from quadsim.base.parameters import read_yaml_text
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import ON_RESET, declare_one, value_of
from quadsim.ros.runtime.reset_times import ResetTimes, reset_stamp

#: Name of the event by which ``dynamics`` tells a reset.
RESET = "reset"
#: Name of the event by which a node tells what it has read again, or why not.
FILES = "files"

Values = Mapping[str, Any]
Apply = Callable[[], None]


class Resets:
    """Files that are read again, and who begins anew.

    Made at the end of a node's making, when its parameters are declared.

    Args:
        executable: whose parameters the scenario describes.
        own: reads the node's own file; used where no scenario is given.
        take: checks parameters that change, by name; True with it: at a reset, else in flight. It
            raises an InputError for what cannot be, changes nothing, and gives what applies them,
            which is called when nobody else has refused them.
        begin: called with the reset's stamp after the files were read, and whether they could be.
        tell: reports something on ``events``: level, name, words.
        simulated: whether the node is part of a simulation whatever its clock; others heed the
            resets of others with ``use_sim_time`` only, never with a real vehicle.
    """

    def __init__(
        self,
        node: QuadsimNode,
        executable: str,
        own: Callable[[], Values],
        take: Callable[[dict[str, Any], bool], Apply],
        begin: Callable[[int, bool], None],
        tell: Callable[[int, str, str], None] | None = None,
        simulated: bool = False,
    ) -> None:
        self._node, self._executable, self._own = node, executable, own
        self._take, self._begin = take, begin
        self._tell = tell or node.tell_event
        self._scenario = declare_one(
            node, "scenario", "", "whose files are read again on /sim/reset"
        )
        overrides = declare_one(
            node, "overrides", "", "keys of the scenario that are given otherwise, as YAML"
        )
        self._overrides = read_yaml_text(overrides, "parameter overrides") or {}
        names = node.list_parameters([], 0).names
        self._said: Values = (
            {name: value_of(node, name) for name in names} if self._scenario else dict(own())
        )
        self._reading = False
        self._simulated = simulated
        self._times = ResetTimes()
        self.forget, self.settled = self._times.forget, self._times.settled
        self.follow = self._times.follow
        self._apply: Apply = _nothing
        node.add_on_set_parameters_callback(self._on_set)
        node.add_post_set_parameters_callback(self._after_set)

    def hear(self, message: Any) -> None:
        """Take an event of another node.

        Raises:
            MessageError: a reset at no time, or in the future.
        """
        node = self._node
        if message.name != RESET or not (self._simulated or node.simulated):
            return
        reset_ns = reset_stamp(message)
        self._times.check(reset_ns, node.get_clock().now().nanoseconds)
        self.at(reset_ns)

    def at(self, reset_ns: int) -> None:
        """Read the files again, and begin anew; older resets than the last do not count."""
        if self._times.begin(reset_ns):
            self._begin(reset_ns, self._read_again())

    def _read(self) -> Values:
        """What the files say now."""
        if not self._scenario:
            return self._own()
        # Loaded here because a sensor node needs the code of scenarios at a reset only.
        graph = import_module("quadsim.ros.graph.graph")
        scenarios = import_module("quadsim.sim.scenario")
        stated = graph.said_of(scenarios.load_scenario(self._scenario, **self._overrides))
        if self._executable not in stated:
            raise InputError(f"{self._scenario}: has no {self._executable} any more")
        return stated[self._executable]

    def _read_again(self) -> bool:
        """Set what the files say otherwise than before; False leaves all as it was."""
        node = self._node
        try:
            stated = self._read()
        except InputError as error:
            return self._refuse(str(error))
        new = [
            name
            for name, value in stated.items()
            if name in self._said and value != self._said[name] and node.has_parameter(name)
        ]
        stored = [name for name in new if value_of(node, name) != self._said[name]]
        fixed = [
            name for name in new if node.describe_parameter(name).read_only and name not in stored
        ]
        changed = [name for name in new if name not in (*stored, *fixed)]
        if changed:
            new_values = [_parameter(name, stated[name]) for name in changed]
            self._reading = True
            try:
                result = node.set_parameters_atomically(new_values)
            finally:
                self._reading = False
            if not result.successful:
                return self._refuse(result.reason)
        # what could not change is told again at the next reset
        self._said = {**self._said, **{name: stated[name] for name in (*changed, *stored)}}
        if fixed:
            self._say(WARN, f"{', '.join(fixed)}: changes with a restart of the graph only")
        if stored:
            self._say(OK, f"stays as given, not as the files say: {', '.join(stored)}")
        if changed:
            self._say(OK, f"read again: {', '.join(changed)}")
        return True

    def _refuse(self, reason: str) -> bool:
        self._say(WARN, f"nothing is read again: {reason}")
        return False

    def _say(self, level: int, words: str) -> None:
        if level == OK:
            self._node.get_logger().info(words)
        else:  # on a line of its own: a logger's severity is tied to it
            self._node.get_logger().error(words)
        self._tell(level, FILES, f"{self._node.get_name()}: {words}")

    def _on_set(self, parameters: Sequence[Any]) -> SetParametersResult:
        """What ROS asks before parameters are set; another callback may still refuse them."""
        self._apply = _nothing
        given = {parameter.name: parameter.value for parameter in parameters}
        try:
            for name in () if self._reading else given:
                about = self._node.describe_parameter(name).additional_constraints
                if about.endswith(ON_RESET):
                    raise InputError(f"{name}: {ON_RESET}")
            self._apply = self._take(given, self._reading)
        except InputError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _after_set(self, _: Sequence[Any]) -> None:
        """All have stated yes: from now on they are in force."""
        apply, self._apply = self._apply, _nothing
        apply()


def _nothing() -> None: ...


def _parameter(name: str, value: Any) -> Parameter:
    """A parameter; an empty list alone has no type."""
    return Parameter(name, Parameter.Type.DOUBLE_ARRAY if value == [] else None, value)

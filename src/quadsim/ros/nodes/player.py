"""Node ``player``: a bag on DDS, in the bag's order, with its time.

Messages go out as they lie in the bag. A thread of its own publishes; the executor serves
``/player/pause`` (SetBool), ``/player/step`` (Trigger), the parameters ``rate``, ``seek_s`` and
``step_s``, and the keys of a terminal: space pauses, right steps, up and down change the rate by a
tenth, q quits.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rcl_interfaces.msg import SetParametersResult
from std_srvs.srv import SetBool, Trigger

from quadsim.bag.reading import Bag, open_bag
from quadsim.base.errors import FlightError, InputError
from quadsim.base.parameters import Spec
from quadsim.ros.graph.options import PlayOptions
from quadsim.ros.messages.world import make_clock
from quadsim.ros.nodes.keys import PAUSE, QUIT, KeySource
from quadsim.ros.parts.timed_parameter import ANY_TIME
from quadsim.ros.player.control import PlayControl
from quadsim.ros.player.outputs import PlayedTopics
from quadsim.ros.player.playback import TICKS, Item, Playback, Selection, parse_remap
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare, declare_one, declare_texts
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.waiting import InStep

LOOK_PERIOD_S = 0.02
#: Until the nodes that are waited for must answer at first (they may have to compile), and later.
START_S, ANSWER_S = 180.0, 10.0
#: What several nodes get to find each other: so many answers of all, and the time between.
ROUNDS, ROUND_S = 5, 0.2
#: Until everything must be acknowledged at the end; Fast DDS asks for it every 3 s, and forgets a
#: listener that died without a word after 20 s.
END_S = 25.0
WAITS = "waits for listeners"
STEP, FASTER, SLOWER = "right", "up", "down"
#: Of one press of a key.
RATE_FACTOR = 1.1
#: Parameters that may change.
LIVE = ("rate", "seek_s", "step_s")

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class PlayerParams(PlayOptions):
    """How a bag is played."""

    seek_s: Annotated[
        float, Spec("set it to go on so long after the bag's start", "s", ge=0.0, le=1e9)
    ] = 0.0
    step_s: Annotated[
        float, Spec("what a step plays of the bag; 0: one message", "s", ge=0.0, le=1e6)
    ] = 0.0
    window: Annotated[
        int,
        Spec("at rate 0: messages of a topic until the nodes of wait_for are asked", ge=1, le=100),
    ] = 1


class PlayerNode(QuadsimNode):
    """Plays a bag.

    Args:
        stop: set when the bag has been played.
        keyboard: keys that steer it.
        progress: called now and then with the time played, s, and a word about the state.
        kwargs: as of :class:`QuadsimNode`.

    Raises:
        InputError: the bag cannot be read, or nothing of it can be played.
    """

    def __init__(
        self,
        stop: threading.Event | None = None,
        keyboard: KeySource | None = None,
        progress: Progress | None = None,
        **kwargs: Any,
    ) -> None:
        self._stack = ExitStack()
        self._thread: threading.Thread | None = None
        super().__init__("player", **kwargs)
        self.params = declare(
            self, PlayerParams(), when=lambda name: ANY_TIME if name in LIVE else ""
        )
        path = declare_one(self, "bag", "", "rosbag2 folder or file")
        driver = declare_one(self, "driver", "", "who published it, if not quadsim")
        selection = Selection(
            tuple(declare_texts(self, "topics", "patterns of what is played; empty: all")),
            tuple(declare_texts(self, "exclude", "patterns of what is left out")),
            parse_remap(declare_texts(self, "remap", "a:=b, of topics or namespaces")),
            self.params.reliable,
        )
        without = declare_texts(self, "without", "nodes whose topics are left out")
        names = declare_texts(self, "wait_for", "nodes that must be there, and take what is sent")
        if not path:
            raise InputError(f"node {self.get_fully_qualified_name()}: parameter bag is empty")
        self._stop = stop or threading.Event()
        self._keyboard = keyboard
        self._progress = progress
        self._failure: Exception | None = None
        self._step_ns = round(self.params.step_s * 1e9)
        self._state = WAITS
        self._began_s = 0.0
        self.wall_s = 0.0
        self.finished = False
        bag = self._stack.enter_context(open_bag(Path(path), driver or None))
        for note in bag.notes:
            self.get_logger().info(note)
        params = self.params
        self.outputs = PlayedTopics(self, bag, selection, without, params.clock, params.window)
        self._begin_ns = next(bag.messages(bag.types)).log_ns
        self._playback = self._section(bag)
        self.control = PlayControl(
            params.rate, params.paused, self._repeat_time, start_ns=self._playback.start_ns
        )
        self._in_step = InStep(self, names, self.control)
        self.create_service(SetBool, "~/pause", self._on_pause)
        self.create_service(Trigger, "~/step", self._on_step)
        self.add_on_set_parameters_callback(self._on_set)
        self.wall_timer(LOOK_PERIOD_S, self._look)
        self._thread = threading.Thread(target=self._work, name="player")
        self._thread.start()

    def _section(self, bag: Bag) -> Playback:
        """The part of the bag that is played."""
        params, length_s = self.params, bag.duration_s
        if params.start_s > length_s:
            raise InputError(
                f"{bag.path}: start {params.start_s:g} s is beyond its end, {length_s:.3f} s"
            )
        start_ns = self._begin_ns + round(params.start_s * 1e9)
        stop_ns = self._begin_ns + round(length_s * 1e9) + 1
        if params.duration_s:
            stop_ns = min(stop_ns, start_ns + round(params.duration_s * 1e9))
        latched = {name: output.latched for name, output in self.outputs.by_topic.items()}
        return Playback(bag, latched, start_ns, stop_ns)

    # ---- playing, in the thread ----------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._await_all()
            at_ns: int | None = self._playback.start_ns
            self.control.play()
            while at_ns is not None and not self.control.stopping:
                at_ns = self._play(at_ns)
                if at_ns is None:
                    at_ns = self.control.end()
            self.wall_s = time.monotonic() - self._began_s
            if not self.control.stopping:
                self._finish()
        except Exception as error:
            self._failure = error  # raised where it is seen, in the executor's thread
        else:
            self._stop.set()

    def _await_all(self) -> None:
        """Wait for the nodes that were named, and until everybody who listens is found."""
        missing = self._in_step.wait(START_S)
        if missing and not self.control.stopping:
            raise FlightError(f"after {START_S:g} s not there: {', '.join(missing)}")
        self.outputs.await_listeners(self.control)
        for _ in range(ROUNDS if len(self._in_step.names) > 1 else 0):
            # whether they have found each other cannot be seen from here; that they work on it can
            self.control.wait_until(lambda: False, ROUND_S)
            self._let_them_take_it()
        self.outputs.name_rivals(self._in_step.names)
        self._began_s = time.monotonic()

    def _play(self, from_ns: int) -> int | None:
        """Play from a log time on; give where to go on, None: it is over."""
        self._state = "plays"
        self._let_them_take_it()
        jumping = True
        for item in self._playback.read(from_ns):
            if not item.urgent:
                if jumping:  # who hears that time went back shall do so before what follows
                    jumping = False
                    self._let_them_take_it()
                    self.control.begin(from_ns)
                if not self.control.wait(item.log_ns, item.topic == TICKS):
                    return self.control.take_seek()
            self._publish(item)
        target_ns = self.control.take_seek()
        if target_ns is None and self.params.loop:
            return self._playback.start_ns
        return target_ns

    def _publish(self, item: Item) -> None:
        output = self.outputs.by_topic[item.topic]
        if self._in_step.names and self.control.rate == 0.0:
            if output.underway >= output.limit:
                self._let_them_take_it()
            output.underway += 1
        output.publish(item.payload if item.topic != TICKS else make_clock(item.log_ns))

    def _let_them_take_it(self) -> None:
        """Wait until the nodes that were named, if any, have taken what is underway."""
        if not self._in_step.names:
            return
        missing = self._in_step.wait(ANSWER_S)
        if missing and not self.control.interrupted:
            raise FlightError(f"for {ANSWER_S:g} s no answer of {', '.join(missing)}")
        for output in self.outputs.by_topic.values():
            output.underway = 0

    def _finish(self) -> None:
        """Wait until all has been delivered.

        Raises:
            FlightError: it has not.
        """
        self._state = "ends"
        self.outputs.await_acknowledgement(self.control, self._in_step.names, END_S)
        missing = self._in_step.wait_in_turn(ANSWER_S)
        if missing and not self.control.stopping:
            raise FlightError(f"at the end for {ANSWER_S:g} s no answer of {', '.join(missing)}")
        self.finished = not self.control.stopping
        self._state = "over"

    def _repeat_time(self) -> None:
        """While it stands: say again what time it is, for those who come late."""
        ticks = self.outputs.by_topic.get(TICKS)
        if ticks is not None:
            ticks.publisher.publish(make_clock(self.control.position_ns))

    # ---- what people ask -----------------------------------------------------------------------

    def _on_pause(self, request: Any, response: Any) -> Any:
        self.control.pause(request.data)
        response.success, response.message = True, self._describe()
        return response

    def _on_step(self, _: Any, response: Any) -> Any:
        response.success = self.control.step(self._step_ns)
        refused = "not paused: /player/pause first"
        response.message = self._describe() if response.success else refused
        return response

    def _on_set(self, parameters: Sequence[Any]) -> SetParametersResult:
        given = {parameter.name: parameter.value for parameter in parameters}
        if "seek_s" in given and (refused := self.seek(given["seek_s"])):
            return SetParametersResult(successful=False, reason=f"seek_s: {refused}")
        if "rate" in given:
            self.control.set_rate(given["rate"])
        if "step_s" in given:
            self._step_ns = round(given["step_s"] * 1e9)
        return SetParametersResult(successful=True)

    def seek(self, to_s: float) -> str:
        """Go on so long after the bag's start; why not, in words."""
        playback, to_ns = self._playback, self._begin_ns + round(to_s * 1e9)
        if not playback.start_ns <= to_ns < playback.stop_ns:
            first_s, last_s = map(self._seconds, (playback.start_ns, playback.stop_ns))
            return f"{to_s:g} s is not in what is played, {first_s:.3f} to {last_s:.3f} s"
        return "" if self.control.seek(to_ns) else f"the bag does not play now ({self._state})"

    def _look(self) -> None:
        """Keys, progress, and what went wrong in the thread."""
        if self._failure is not None:
            raise self._failure
        if self._keyboard is not None:
            for key in self._keyboard.pressed():
                self._on_key(key)
        if self._progress is not None and self._state != WAITS:
            self._progress(self.played_s, self._describe())

    def _on_key(self, key: str) -> None:
        control = self.control
        if key == PAUSE:
            control.pause(not control.paused)
        elif key == STEP:
            control.step(self._step_ns)
        elif key in (FASTER, SLOWER) and control.rate:
            control.set_rate(control.rate * (RATE_FACTOR if key == FASTER else 1.0 / RATE_FACTOR))
        elif key in QUIT:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C where the terminal makes it

    # ---- status -------------------------------------------------------------------------------

    def _seconds(self, log_ns: int) -> float:
        return (log_ns - self._begin_ns) * 1e-9

    @property
    def played_s(self) -> float:
        """Bag time from where it began to where it is, s."""
        return (self.control.position_ns - self._playback.start_ns) * 1e-9

    def _describe(self) -> str:
        control = self.control
        state = "paused" if control.paused and self._state == "plays" else self._state
        position_s = self._seconds(control.position_ns)
        return f"{state} at {position_s:.3f} s, rate {control.rate:.3g}"

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Where it is, and how exactly."""
        values: dict[str, Any] = {
            "rate": self.control.rate,
            "messages": sum(self.outputs.counts.values()),
        }
        late = self.control.lateness
        if late.count:
            values |= {
                "late_median_ms": late.percentile_ms(50.0),
                "late_99_ms": late.percentile_ms(99.0),
            }
        return 0, self._describe(), values

    def destroy_node(self) -> None:
        """End the thread, close the bag; the node is gone afterwards."""
        if self._thread is not None:
            self.control.stop()
            self._thread.join()
        self._stack.close()
        super().destroy_node()


make, main = entry_points(PlayerNode, stops=True)

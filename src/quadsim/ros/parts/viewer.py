"""What ``quadsim view`` hears of a live graph: a listener that publishes nothing.

It takes bytes, best effort (so no publisher waits for it), thins them by their stamps, and draws
ten times a second. Vehicles are found by their topics; world and vehicle are asked of the graph's
own nodes, once, where nobody stated which scenario flies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient

from quadsim.base.errors import FlightError, InputError
from quadsim.geometry.geodesy import Datum
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.runtime import run
from quadsim.sim.scenario import load_scenario
from quadsim.view.feed import ODOMETRY, TOPICS, Feed, Mounts
from quadsim.view.flights import Picture, vehicle_name, wanted
from quadsim.view.output import Viewer
from quadsim.view.scenarios import site_of
from quadsim.view.world_shapes import GroundPatch
from quadsim.wire.decode import decode

DRAW_PERIOD_S = 0.1
SEARCH_PERIOD_S = 0.5
#: Node to its parameter that states what flies.
WHO_KNOWS = {"dynamics": "vehicle", "autopilot": "mission"}
#: How long the graph's nodes may take to say what flies, s.
ANSWER_S = 3.0
#: Half the width of the flat ground under a live flight, m.
GROUND_M = 80.0
#: Topics whose last message a late listener wants too, and so waits for no other.
LATCHED = ("mission", "mission/status", "events")
_BY_NAME = {topic.name: topic for topic in topics.VEHICLE_TOPICS}


class ViewerNode(Node):
    """Finds vehicles and draws what they say.

    Args:
        namespaces: of the vehicles; none: all that publish an odometry.
        datum: origin of the world; None takes ``/datum``.
        shown: the viewer, whose end ends this; None without one.
        stop: is set then.
    """

    def __init__(
        self,
        picture: Picture,
        namespaces: Sequence[str],
        datum: Datum | None,
        shown: Viewer | None,
        stop: threading.Event,
        context: Context,
    ) -> None:
        super().__init__(
            "viewer", context=context, use_global_arguments=False, enable_rosout=False,
            start_parameter_services=False,
        )  # fmt: skip
        self._picture, self._shown, self._stop = picture, shown, stop
        self._only = [f"/{name.strip('/')}" for name in namespaces]
        self._datum = datum
        self._feeds: dict[str, Feed] = {}
        self._seen: set[str] = set()
        self._heard: set[str] = set()
        self._world_drawn = False
        self._answers: dict[str, str] = {}
        self._asked: set[str] = set()
        self._patient_until_s = 0.0
        if datum is None:
            self.create_subscription(
                topics.DATUM.message, topics.DATUM.name, self._on_datum, topics.DATUM.wanted,
                raw=True,
            )  # fmt: skip
        self.create_subscription(
            topics.OBSTACLES.message, topics.OBSTACLES.name, picture.spawned.take,
            topics.OBSTACLES.wanted, raw=True,
        )  # fmt: skip
        self.create_timer(DRAW_PERIOD_S, self._draw)
        self.create_timer(SEARCH_PERIOD_S, self._search)
        self.get_logger().info("looking for vehicles")

    # ---- what is there -------------------------------------------------------------------------

    def _search(self) -> None:
        """Look for vehicles, and listen to what is new of those that are known."""
        types = {name: kinds[0] for name, kinds in self.get_topic_names_and_types()}
        for namespace in self._only or _vehicles(types):
            drawn = wanted(types, namespace)
            if not any(kind == ODOMETRY for _, kind in drawn.values()):
                continue
            if namespace not in self._seen:  # its other topics may not be known yet
                self._seen.add(namespace)
                continue
            if namespace not in self._feeds:
                if not self._knows_scenario():
                    return
                self._begin(namespace, any(name == topics.TRUTH.name for name, _ in drawn.values()))
            for full, (name, kind) in drawn.items():
                if full not in self._heard:
                    self._heard.add(full)
                    self._listen(self._feeds[namespace], full, name, kind)

    def _begin(self, namespace: str, has_truth: bool) -> None:
        """Draw a new vehicle from now on."""
        picture = self._picture
        view = picture.view(vehicle_name(namespace), has_truth)
        mounts = picture.site.mounts if picture.site else Mounts()
        self._feeds[namespace] = Feed(view, mounts, self._datum, picture.rate_hz)
        self._world_drawn = False
        self.get_logger().info(f"drawing {namespace}")

    def _listen(self, feed: Feed, full: str, name: str, kind: str) -> None:
        topic = _BY_NAME.get(name) or topics.beside_odometry(name.rpartition("/")[2])
        profile = topic.offered if name in LATCHED else qos.best_effort(topic.wanted)
        take = partial(feed.take, name, kind)
        self.create_subscription(topics.message_class(kind), full, take, profile, raw=True)

    def _on_datum(self, payload: bytes) -> None:
        block = decode(topics.DATUM.type_name, [payload])
        place = [float(block[key][0]) for key in ("latitude_deg", "longitude_deg", "height_m")]
        self._datum = Datum(*place)
        for feed in self._feeds.values():
            feed.datum = self._datum

    # ---- what flies ----------------------------------------------------------------------------

    def _knows_scenario(self) -> bool:
        """Whether the scenario is known, or nobody will say."""
        if self._picture.site is not None:
            return True
        now_s = time.monotonic()
        if not self._patient_until_s:
            self._patient_until_s = now_s + ANSWER_S
        for name, namespace in self.get_node_names_and_namespaces():
            if name in WHO_KNOWS and WHO_KNOWS[name] not in self._asked:
                self._ask(f"{namespace.rstrip('/')}/{name}", WHO_KNOWS[name])
        if not {*WHO_KNOWS.values()} <= self._answers.keys() and now_s < self._patient_until_s:
            return False
        name, vehicle = self._answers.get("mission"), self._answers.get("vehicle")
        if name:
            try:
                self._picture.site = site_of(load_scenario(name, vehicle=vehicle or None))
                return True
            except InputError as error:
                self.get_logger().warning(str(error))
        self.get_logger().warning(
            "the scenario that flies is unknown: flat ground and the default vehicle are drawn"
            " (--scenario NAME)"
        )
        return True

    def _ask(self, node: str, parameter: str) -> None:
        """Ask a node for a text."""
        client = AsyncParameterClient(self, node)
        if not client.services_are_ready():
            return
        self._asked.add(parameter)

        def answered(future: Any) -> None:
            values = future.result().values
            self._answers[parameter] = str(parameter_value_to_python(values[0]) or "")

        client.get_parameters([parameter], callback=answered)

    # ---- drawing -------------------------------------------------------------------------------

    def _draw(self) -> None:
        for feed in self._feeds.values():
            feed.flush()
        starts = [feed.view.start_W for feed in self._feeds.values()]
        if starts and not self._world_drawn and all(start is not None for start in starts):
            self._world_drawn = True
            x_m, y_m = np.mean([start[:2] for start in starts if start is not None], axis=0)
            self._picture.draw_world(GroundPatch(float(x_m), float(y_m), GROUND_M))
            self._picture.lay_out_likely()
        if self._shown is not None and self._shown.process.poll() is not None:
            self._stop.set()


def _vehicles(types: dict[str, str]) -> list[str]:
    """Namespaces that have an odometry of ours."""
    ends = [f"/{name}" for name, kind in TOPICS.items() if kind == ODOMETRY]
    named = [full for full, kind in types.items() if kind == ODOMETRY]
    return sorted({full.removesuffix(end) for full in named for end in ends if full.endswith(end)})


def watch(
    picture: Picture,
    namespaces: Sequence[str],
    datum: Datum | None,
    domain: int | None,
    shown: Viewer | None,
    stop: threading.Event | None = None,
) -> None:
    """Draw a live graph until Ctrl-C, SIGTERM, or the viewer's end.

    Raises:
        FlightError: the listener broke.
    """
    stop = stop or threading.Event()
    make = partial(ViewerNode, picture, namespaces, datum, shown, stop)
    status = run([lambda context: make(context=context)], domain=domain, stop=stop)
    if status:
        raise FlightError("the viewer stopped (its output stands above)")

"""Named frames: those of a world, or those of a model (links, joints, models in it, ``<frame>``).

A pose is in the frame that ``relative_to`` names, a frame's else in that of ``attached_to``, a
joint's else in that of its child; a name ``a::b`` is that of ``b`` in the model ``a``
(http://sdformat.org/tutorials?tut=pose_frame_semantics).
"""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element  # the type alone

from quadsim.world.scene.obstacles import Pose
from quadsim.world.sdf.values import Place, only_child, pose_of, text_of

#: The frame of the world itself, our ``map`` where x is east.
WORLD = "world"
#: The frame of a model in it.
MODEL = "__model__"
#: What has a frame.
NAMED = ("frame", "link", "joint", "model", "include")
#: Most frames that stand one on another.
MAX_FRAMES = 100

#: The model that a ``<model>`` is or an ``<include>`` names, and where it stands; None for a light.
Find = Callable[[Element, Place], tuple[Element, Place] | None]


class Frames:
    """Where the named frames of a world or model are in it.

    Args:
        owner: ``<world>`` or ``<model>``.
        place: where it stands.
        find: the model of an element.

    Raises:
        InputError: a ``<frame>`` of a world has no name, or one that is taken or reserved.
    """

    def __init__(self, owner: Element, place: Place, find: Find) -> None:
        self.own = WORLD if owner.tag == "world" else MODEL
        self._place, self._find = place, find
        self._named: dict[str, Element] = {}
        self._poses: dict[str, Pose] = {}
        self._open: list[str] = []
        self._inner: dict[str, Frames] = {}
        for child in owner:
            if child.tag not in NAMED:
                continue
            name = child.get("name") or child.findtext("name", "").strip()
            if child.tag == "include" and not name:
                continue  # it has the name that is in its file, which is read where one is needed
            wrong = not name or name in self._named or name == WORLD or name.startswith("__")
            if child.tag == "frame" and wrong:
                raise place.at(child).error(
                    f"<frame name={name!r}>; allowed: a name of its own, not {WORLD!r}"
                )
            self._named.setdefault(name, child)
        self._nameless = [
            child for child in owner.findall("include") if not child.findtext("name", "").strip()
        ]

    def all(self) -> dict[str, Pose]:
        """Where every ``<frame>`` is, by its name."""
        frames = (name for name, element in self._named.items() if element.tag == "frame")
        return {name: self.of(name, self._place) for name in frames}

    def pose(self, element: Element, place: Place, base: Pose | None = None) -> Pose:
        """The pose of something in this world or model.

        Args:
            element: with a ``<pose>``.
            place: inside it.
            base: the frame that it is in by default; None: that of the world or model.

        Raises:
            InputError: no pose, or in a frame that is not known or stands on itself.
        """
        pose = only_child(element, "pose", place)
        own = pose_of(element, place)
        named = ""
        if pose is not None:
            named = pose.get("relative_to", "") or pose.get("frame", "")
        if not named and element.tag == "frame":
            named = element.get("attached_to", "")
        if not named and element.tag == "joint":
            named = text_of(element, "child", place, "")
        if named:
            return self.of(named, place) @ own
        return own if base is None else base @ own

    def of_model(self, element: Element, place: Place) -> Pose:
        """The pose of a ``<model>`` or ``<include>``; one that is given stands for the model's own.

        Raises:
            InputError: as of :meth:`pose`.
        """
        found = self._find(element, place)
        if found is None:
            return Pose()
        model, inside = found
        given = model if only_child(element, "pose", place) is None else element
        pose = self.pose(given, inside if given is model else place)
        placed = text_of(element, "placement_frame", place, "") if element.tag == "include" else ""
        placed = placed or model.get("placement_frame", "")
        if placed:
            pose = pose @ Frames(model, inside, self._find).of(placed, inside).inverse()
        return pose

    def of(self, name: str, place: Place) -> Pose:
        """The pose of a frame in this world or model.

        Args:
            name: of the frame.
            place: where it is named, for errors.

        Raises:
            InputError: it is not known, or stands on itself.
        """
        if name in ("", self.own):
            return Pose()
        if name in self._open:
            raise place.error(
                f"it stands on itself ({name!r}); let one frame stand on {self.own!r}"
            )
        if len(self._open) >= MAX_FRAMES:
            raise place.error(f"more than {MAX_FRAMES} frames, one on another")
        if name not in self._poses:
            self._open.append(name)
            self._poses[name] = self._resolve(name, place)
            self._open.pop()
        return self._poses[name]

    def _resolve(self, name: str, place: Place) -> Pose:
        first, inner, rest = (name, "", "") if name in self._named else name.partition("::")
        element = self._named[first] if first in self._named else self._from_file(first)
        model = element is not None and element.tag in ("model", "include")
        if element is None or (inner and not model):
            known = ", ".join((self.own, *(other for other in self._named if other != name)))
            raise place.error(f"it stands on {name[:60]!r}; allowed: {known[:300]}")
        inside = self._place.at(element)
        if not model:
            return self.pose(element, inside)
        pose = self.of_model(element, inside)
        if not inner:
            return pose
        found = self._find(element, inside)
        if found is None or rest.count("::") > MAX_FRAMES:
            raise place.error(f"it stands on {name[:60]!r}, which is not known")
        if first not in self._inner:
            self._inner[first] = Frames(*found, self._find)
        return pose @ self._inner[first].of(rest, place)

    def _from_file(self, name: str) -> Element | None:
        """The include whose file has a model of this name."""
        for element in self._nameless:
            found = self._find(element, self._place.at(element))
            if found is not None and found[0].get("name") == name:
                return element
        return None

"""Classes of simulation_interfaces out of its definitions, as rosidl makes them, and its services.

Fields cannot be others than the definition's; constants are of the class.
"""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from quadsim.ros.simulation import interfaces as module

TEXT = Path(__file__).with_name("simulation_interfaces.txt").read_text()
DEFINITIONS = {
    name: text for name, _, text in (part.partition("\n") for part in TEXT.split("=== ")[1:])
}
NUMBERS = {"bool": bool, "uint8": int, "uint16": int, "uint64": int, "string": str}


def class_of(text: str, of: dict) -> type:
    """What rosidl makes of a definition; messages of the package are in ``of``."""
    lines = [line.split() for line in text.splitlines()]
    fields = {words[1]: words for words in lines if "=" not in words}

    def value(kind: str, *default: str):
        if kind.endswith("]"):
            return []
        if kind in NUMBERS:
            return NUMBERS[kind](*map(int, default))
        package, _, name = kind.rpartition("/")
        return getattr(import_module(f"{package}.msg"), name)() if package else of[name]()

    class Made:
        __slots__ = tuple(fields)

        def __init__(self, **given) -> None:
            for name, (kind, _, *default) in fields.items():
                setattr(self, name, given[name] if name in given else value(kind, *default))

    for words in lines:
        if "=" in words:
            setattr(Made, words[1], int(words[3]))
    return Made


def classes(left_out: tuple[str, ...] = ()) -> dict[str, object]:
    """``msg/NAME`` to the message, ``srv/NAME`` to request and response; but for some."""
    of: dict[str, type] = {}
    found: dict[str, object] = {}
    for name, text in DEFINITIONS.items():
        kind, _, short = name.partition("/")
        if name in left_out:
            continue
        if kind == "msg":
            found[name] = of[short] = class_of(text, of)
        else:
            request, _, response = text.partition("---\n")
            found[name] = SimpleNamespace(
                Request=class_of(request, of), Response=class_of(response, of), of_definition=True
            )
    return found


class Services:
    """The services that a node offers while the package seems to be installed.

    Args:
        monkeypatch: for the time of a test.
        left_out: names that an older version lacks.
    """

    def __init__(self, monkeypatch, left_out: tuple[str, ...] = ()) -> None:
        self.classes = classes(left_out)
        self.offered: dict[str, tuple] = {}

        def message_class(name: str):
            if name.partition("/")[2] not in self.classes:
                raise ImportError(name)
            return self.classes[name.partition("/")[2]]

        monkeypatch.setattr(module, "is_installed", lambda _: True)
        monkeypatch.setattr(module, "message_class", message_class)

    def create_service(self, kind, name, asked) -> None:
        """What a node is asked for."""
        self.offered[name] = kind, asked

    def message(self, name: str, /, **fields):
        """A message of the package; fields of fields by ``__``."""
        return filled(self.classes[f"msg/{name}"](), fields)

    def __call__(self, name: str, /, **fields):
        """Ask a service by its name."""
        kind, asked = self.offered[f"/sim/{name}"]
        return asked(filled(kind.Request(), fields), kind.Response())


def filled(message, fields):
    """A message with some fields; ``a__b`` is the field b of a."""
    for field, value in fields.items():
        *path, last = field.split("__")
        owner = message
        for name in path:
            owner = getattr(owner, name)
        setattr(owner, last, value)
    return message

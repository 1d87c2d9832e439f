"""quadsim: quadrotors as a ROS 2 node graph in which any simulated part can be the real one.

The public API is what :data:`__all__` names, and what these return. It keeps to semantic versioning
from 1.0 on; everything else may change at any time. ``docs/api.md`` shows how to use it.

Importing the package chooses the folder of the compiled kernels, and how they are known to be
those of the sources: see :mod:`quadsim.base.kernel_cache`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from quadsim._version import __version__ as __version__
from quadsim.base.kernel_folder import choose_folder

if TYPE_CHECKING:
    from quadsim.api.flight import Flight, load, replay
    from quadsim.api.simulation import Controller, FlightView, Simulation, State
    from quadsim.base.compiled import kernel
    from quadsim.base.errors import FlightError, InputError, QuadsimError
    from quadsim.base.parts import PartError
    from quadsim.sim.flight_view import Attitude, Rates

__all__ = [
    "Attitude",
    "Controller",
    "Flight",
    "FlightError",
    "FlightView",
    "InputError",
    "PartError",
    "QuadsimError",
    "Rates",
    "Simulation",
    "State",
    "kernel",
    "load",
    "replay",
]

#: Where the public names are, so that a command imports only what it uses.
_PLACES = {
    **dict.fromkeys(("Controller", "FlightView", "Simulation", "State"), "quadsim.api.simulation"),
    **dict.fromkeys(("Flight", "load", "replay"), "quadsim.api.flight"),
    **dict.fromkeys(("FlightError", "InputError", "QuadsimError"), "quadsim.base.errors"),
    "PartError": "quadsim.base.parts",
    **dict.fromkeys(("Attitude", "Rates"), "quadsim.sim.flight_view"),
    "kernel": "quadsim.base.compiled",
}

choose_folder()


def __getattr__(name: str) -> object:
    """A public name, imported when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module 'quadsim' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])

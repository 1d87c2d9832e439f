"""Packages whose version does not fit, as on Ubuntu 24.04."""

import sys

import pytest

from quadsim import precompile
from quadsim.base import surroundings
from quadsim.base.errors import InputError

NEEDS = [
    "numpy>=1.26",
    "numba<0.69,>=0.62",
    "defusedxml>=0.7.1",
    "setproctitle>=1.3; extra == 'ros'",
    "evo>=1.38; python_version >= \"3.11\" and extra == 'test'",
    "click",
]


@pytest.fixture
def installed(monkeypatch):
    """Versions of what is installed, by name; the rest is not."""
    versions = {"numpy": "1.26.4", "numba": "0.62.1", "setproctitle": "0.1"}
    monkeypatch.setattr(surroundings, "requires", lambda _: NEEDS)
    monkeypatch.setattr(surroundings, "installed_version", versions.get)
    return versions


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"numba": "0.59.1"}, ["numba 0.59.1: pip install 'numba<0.69,>=0.62'"]),
        ({"numba": "0.69.0"}, ["numba 0.69.0: pip install 'numba<0.69,>=0.62'"]),
        ({"numba": "0.68.2rc1"}, []),
        ({"defusedxml": "0.7"}, ["defusedxml 0.7: pip install 'defusedxml>=0.7.1'"]),
        ({"defusedxml": "0.10", "click": "1"}, []),
    ],
)
def test_what_does_not_fit_is_named_with_the_remedy(installed, changed, found):
    installed |= changed
    assert surroundings.misfits() == found


def test_a_numba_that_compiles_for_ever_is_refused(installed, monkeypatch):
    surroundings.need_compiler()
    installed |= {"numpy": "1.20", "numba": "0.59.1"}
    with pytest.raises(InputError, match=r"numba 0\.59\.1: pip install 'numba<0\.69,>=0\.62'"):
        surroundings.need_compiler()
    monkeypatch.setattr(sys, "argv", ["precompile"])
    with pytest.raises(SystemExit, match=r"quadsim: error: numba 0\.59\.1"):
        precompile.main()

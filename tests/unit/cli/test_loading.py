"""Kernels that a flight needs are compiled before it, once, and that is said."""

import pytest

from quadsim import precompile
from quadsim.cli import common


@pytest.fixture
def compiled(monkeypatch):
    """What was compiled ahead."""
    calls = []
    monkeypatch.setattr(precompile, "fill_first", lambda: calls.append("first"))
    return calls


def test_without_kernels_they_are_compiled_first(compiled, monkeypatch, capsys):
    monkeypatch.setattr(common, "is_filled", lambda: False)
    with common.loading("loading"):
        assert compiled == ["first"]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "quadsim: compiling what a flight needs, once, which takes a minute or two",
        "quadsim: loading",
    ]


def test_with_kernels_nothing_is_compiled_and_nothing_said(compiled, monkeypatch, capsys):
    monkeypatch.setattr(common, "is_filled", lambda: True)
    with common.loading("loading"):
        pass
    assert compiled == []
    assert capsys.readouterr().err == ""

"""docs/reference.md is what the declarations say."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("rclpy")


def test_the_reference_page_is_current():
    path = Path(__file__).parents[3] / "docs" / "make_reference.py"
    spec = importlib.util.spec_from_file_location("make_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), (
        "write it anew: python docs/make_reference.py"
    )

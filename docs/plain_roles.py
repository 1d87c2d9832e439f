"""References of docstrings as plain code: ``:class:`Flight` `` becomes ``Flight`` on the site."""

from __future__ import annotations

import re
from typing import Any

import griffe


class PlainRoles(griffe.Extension):
    """Takes the roles of Sphinx, which Markdown does not know, out of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """One module, class, function or attribute that has been read."""
        if obj.docstring:
            obj.docstring.value = re.sub(r":[a-z]+:`~?([^`]+)`", r"`\1`", obj.docstring.value)

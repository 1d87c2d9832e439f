"""The one exception root; the command turns it into one line and an exit status."""

from __future__ import annotations


class QuadsimError(Exception):
    """Anything quadsim refuses or gives up on; the message names the thing and the remedy."""


class InputError(QuadsimError):
    """A file, key, value or argument that cannot be used (exit status 2)."""


class FlightError(QuadsimError):
    """A run that ended because something broke in flight (exit status 1)."""

"""Ranges of parameters as ROS tools show them."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from quadsim.base.errors import InputError
from quadsim.base.parameters import Leaf, Spec, unflatten
from quadsim.ros.runtime.params import descriptor

SPEC = Spec("how long", "s", gt=0.0, le=60.0)


@dataclass(frozen=True)
class Params:
    timeout_s: Annotated[float, SPEC] = 1.0


def test_an_end_that_is_not_allowed_is_shown_as_it_is_and_refused():
    """Not as 5e-324, the least number above 0."""
    shown = descriptor(Leaf("timeout_s", float, SPEC, 1.0))
    (interval,) = shown.floating_point_range
    assert (interval.from_value, interval.to_value) == (0.0, 60.0)
    assert "> 0" in shown.additional_constraints
    with pytest.raises(InputError, match=r"timeout_s: 0\.0 is out of range"):
        unflatten(Params, {"timeout_s": 0.0}, "node /quad/a")

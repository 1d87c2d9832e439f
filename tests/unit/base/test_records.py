"""Records declared as classes: their structured types."""

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Over, Record, Records, Vector
from quadsim.base.parameters import Spec, dtype_of, new

T = TypeVar("T")


@dataclass(frozen=True)
class Rubber:
    grip: Annotated[float, Spec("friction")] = 1.0


class Tyre(Record):
    rubber: Rubber
    worn: bool


class Wheel(Record, Generic[T]):
    turns: int
    axis_B: Vector
    slip: Annotated[Array, 2, 4]
    marks: Annotated[NDArray[np.int64], 3]
    tyre: T
    spares: Annotated[Records[T], 5]
    head: Annotated[Array, 2, Over("axis_B")]


def test_record_has_the_type_that_its_class_says():
    tyre = np.dtype([("rubber", [("grip", "f8")]), ("worn", "i8")])
    fields = [("turns", "i8"), ("axis_B", "f8", 3), ("slip", "f8", (2, 4)), ("marks", "i8", 3)]
    plain = np.dtype([*fields, ("tyre", tyre), ("spares", tyre, 5)])
    dtype = dtype_of(Wheel[Tyre])
    assert dtype.itemsize == plain.itemsize
    for name in plain.names:
        assert dtype.fields[name] == plain.fields[name]
    assert dtype.fields["head"] == (np.dtype(("f8", 2)), plain.fields["axis_B"][1])


def test_new_record_is_zero_and_its_fields_lie_over_each_other():
    class Point(Record):
        p_W: Vector
        level: Annotated[Array, 2, Over("p_W")]

    point = new(Point)
    assert not point.p_W.any()
    point.level[:] = 1.0, 2.0
    assert point.p_W.tolist() == [1.0, 2.0, 0.0]

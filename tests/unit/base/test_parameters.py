"""Parameters: what is accepted, what is refused and in which words."""

import time
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated

import pytest

from quadsim.base.changes import set_keys
from quadsim.base.compiled import kernel
from quadsim.base.errors import InputError
from quadsim.base.parameters import (
    Spec,
    Vec3,
    flatten,
    from_mapping,
    leaves,
    load,
    pack,
    read_yaml_text,
    unflatten,
)
from quadsim.lab.campaign.factors import factor_from
from quadsim.mission.items import items_from
from quadsim.sim.scenario import faults_from
from quadsim.vehicle.disturbances import disturbances_from


@dataclass(frozen=True)
class Inner:
    gain: Annotated[float, Spec("a gain", "1/s", gt=0.0, le=10.0)] = 2.0


@dataclass(frozen=True)
class Outer:
    mass_kg: Annotated[float, Spec("mass", "kg", gt=0.0)]
    points: Annotated[tuple[Vec3, ...], Spec("points", "m", max_items=3)] = ()
    offset: Annotated[Vec3, Spec("offset", "m", ge=-1.0, le=1.0)] = (0.0, 0.0, 0.0)
    mode: Annotated[str, Spec("mode", choices=("first", "second"))] = "first"
    on: bool = True
    count: Annotated[int, Spec("how many", ge=1)] = 1
    inner: Inner = field(default_factory=Inner)


GOOD = {"mass_kg": 2, "points": [[1, 2, 3], [4, 5, 6]], "mode": "second", "inner": {"gain": 3.5}}


def test_values_arrive():
    params = from_mapping(Outer, GOOD, "file")
    assert params == Outer(2.0, ((1, 2, 3), (4, 5, 6)), mode="second", inner=Inner(3.5))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mas_kg": 1.0}, ["unknown key 'mas_kg'", "mass_kg"]),
        ({"mass_kg": 0.0}, ["mass_kg", "0.0", "> 0", "kg"]),
        ({"mass_kg": "2"}, ["mass_kg", "'2' is not a number"]),
        ({"mass_kg": True}, ["mass_kg", "True is not a number"]),
        ({"mass_kg": float("nan")}, ["mass_kg", "nan", "out of range"]),
        ({"points": [[1, 2]]}, ["points[0]", "exactly 3"]),
        ({"points": [[0, 0, 0]] * 4}, ["points", "at most 3"]),
        ({"points": 3}, ["points", "not a list"]),
        ({"offset": [0.0, 2.0, 0.0]}, ["offset[1]", "2.0", "<= 1"]),
        ({"mode": "third"}, ["mode", "'third'", "first, second"]),
        ({"on": 1}, ["on", "true or false"]),
        ({"count": 1.5}, ["count", "whole number"]),
        ({"inner": {"gain": -1.0}}, ["inner", "gain", "-1.0"]),
        ({"inner": {"gian": 1.0}}, ["inner", "'gian'"]),
        ({"inner": 5}, ["inner", "keys and values"]),
    ],
)
def test_what_is_wrong_is_named(change, words):
    with pytest.raises(InputError) as refused:
        from_mapping(Outer, GOOD | change, "vehicle.yaml")
    message = str(refused.value)
    assert message.startswith("vehicle.yaml")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_missing_key():
    with pytest.raises(InputError, match="'mass_kg' is missing"):
        from_mapping(Outer, {}, "file")


def test_ros_form_there_and_back():
    params = from_mapping(Outer, GOOD, "file")
    flat = flatten(params)
    assert flat["inner.gain"] == 3.5
    assert flat["points"] == [1, 2, 3, 4, 5, 6]
    assert unflatten(Outer, flat, "node") == params
    assert [leaf.name for leaf in leaves(Outer)] == list(flat)


def test_kernels_read_what_was_packed():
    @kernel
    def read(record):
        return (
            record.mass_kg,
            record.points[1, 2],
            record.points_count,
            record.mode,
            record.on,
            record.inner.gain,
        )

    assert read(pack(from_mapping(Outer, GOOD, "file"))) == (2.0, 6.0, 2, 1, 1, 3.5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("mass_kg: [", "not valid YAML at line"),
        ("- 1\n- 2", "expected keys and values"),
        ("", "expected keys and values"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_unreadable_files(tmp_path, content, words):
    path = tmp_path / "outer.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        load(Outer, path)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"absent\.yaml: cannot be read"):
        load(Outer, tmp_path / "absent.yaml")


def test_exponents_without_a_point_are_numbers(tmp_path):
    path = tmp_path / "outer.yaml"
    path.write_text("mass_kg: 1e-3")
    assert load(Outer, path).mass_kg == 1e-3


@pytest.mark.parametrize("lines", [1, 5000], ids=["by libyaml", "too long for it"])
def test_long_files_are_read_alike(lines):
    text = "# as long as that\n" * lines + "a: 1e-3\nb: [1, yes, 0x10, 2024-01-01]\nc: {d: ~}\n"
    found = read_yaml_text(text, "x.yaml")
    assert found == {"a": 1e-3, "b": [1, True, 16, date(2024, 1, 1)], "c": {"d": None}}


def test_a_mistake_is_where_pythons_parser_finds_it():
    with pytest.raises(InputError, match=r"x\.yaml: not valid YAML at line 2$"):
        read_yaml_text("a: [1,\nb: {", "x.yaml")  # at line 3 by libyaml


@pytest.mark.parametrize("lines", [1, 5000], ids=["by libyaml", "too long for it"])
def test_a_key_that_is_there_twice_is_refused(lines):
    text = "# as long as that\n" * lines + "a: {mass_kg: 1, b: 2}\nc:\n  b: 1\n  b: 2\n"
    with pytest.raises(InputError, match=rf"x\.yaml: the key 'b' is there twice.* {lines + 4}$"):
        read_yaml_text(text, "x.yaml")


def test_deep_text_is_refused():
    for length in (5_000, 100_000):  # by libyaml, and too long for it
        with pytest.raises(InputError, match="it nests too deep"):
            read_yaml_text("[" * length + "]" * length, "x.yaml")


@pytest.mark.parametrize(
    "scalar",
    ["9" * 5000, "2001-99-99", "!!float x", "!!int foo", "!!int ''", "!!bool x", "!!timestamp x"],
)
def test_scalars_that_are_not_of_their_tag_are_refused(scalar):
    with pytest.raises(InputError, match=r"x\.yaml: not valid YAML"):
        read_yaml_text(f"a: {scalar}", "x.yaml")


#: 362 bytes that stand for 10^10 values.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "its aliases stand for .* values; allowed: 100000"),
        # merged keys are copied while the text is read
        (BOMB.replace("[x,x,x,x,x,x,x,x,x,x]", "{k: 1}").replace("[*", "{<<: [*").replace(
            "]\n", "]}\n"), "its aliases stand for"),
        (BOMB + "#" * 10_000, "its aliases stand for"),
        ("a: &a [1, *a]", "an alias stands for what it is in"),
    ],
    ids=["lists", "merged", "long", "itself"],
)  # fmt: skip
def test_aliases_that_stand_for_too_much_are_refused(text, words):
    begun_s = time.process_time()
    with pytest.raises(InputError, match=rf"x\.yaml: {words}") as refused:
        read_yaml_text(text, "x.yaml")
    assert len(str(refused.value)) < 500
    assert time.process_time() - begun_s < 5.0  # written out it takes hours


def test_aliases_are_allowed():
    assert read_yaml_text("a: &a {k: [1, 2]}\nb: {<<: *a, c: *a}", "x.yaml")["b"] == {
        "k": [1, 2],
        "c": {"k": [1, 2]},
    }


def nested(levels: int = 12) -> list[object]:
    """A list that holds 10^levels values, of as many lists."""
    value: list[object] = ["x"] * 10
    for _ in range(levels - 1):
        value = [value] * 10
    return value


HUGE = [nested(), {"deep": nested()}, "x" * 10_000_000, 1 << 100_000, {"x" * 1_000_000: nested()}]


@pytest.mark.parametrize("value", HUGE, ids=["list", "keys", "text", "number", "key"])
@pytest.mark.parametrize("key", [*GOOD, "offset", "on", "count", "nobody"])
def test_a_message_stays_short_whatever_the_value_holds(key, value):
    for content in (GOOD | {key: value}, value, {**GOOD, "inner": {"gain": value}}):
        with pytest.raises(InputError) as refused:
            from_mapping(Outer, content, "file")
        assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    "read",
    [
        lambda value: items_from(value, "file"),
        lambda value: items_from([{"loop": value}], "file"),
        lambda value: items_from([{"hover": value}], "file"),
        lambda value: faults_from([value], {}, "file"),
        lambda value: faults_from([{"sensor": "x" * 10_000_000}], {}, "file"),
        lambda value: disturbances_from([value], "file"),
        lambda value: disturbances_from([{"kind": "x" * 10_000_000}], "file"),
        lambda value: factor_from("mass", value, "file"),
        lambda value: factor_from("mass", {"cases": {"one": value}}, "file"),
        lambda value: factor_from("mass", {"choices": "x" * 10_000_000}, "file"),
        lambda value: set_keys({"a": value}, {"a.b.c": 1}, Outer, "file"),
    ],
)
@pytest.mark.parametrize("value", [nested(), "x" * 10_000_000], ids=["list", "text"])
def test_messages_of_other_readers_stay_short(read, value):
    with pytest.raises(InputError) as refused:
        read(value)
    assert len(str(refused.value)) < 2000

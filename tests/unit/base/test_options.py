"""One declaration of an option gives launch arguments and a click command."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import click
import pytest
from click.testing import CliRunner

from quadsim.base.errors import InputError
from quadsim.base.options import Option, argument, build, from_texts, launch_arguments, option
from quadsim.base.spec import Spec
from quadsim.cli.options import command, given

Rate = Annotated[float, Spec("of samples", "Hz", gt=0.0, le=1000.0)]


@dataclass(frozen=True)
class Inner:
    rate_hz: Rate = 50.0
    names: tuple[str, ...] = option((), "who", commas=True)


@dataclass(frozen=True)
class Options:
    seed: int | None = option(None, "of all noise", ge=0, unset="as the file says")
    mode: str = option("slow", "how", choices=("slow", "fast"))
    place: tuple[float, float] | None = option(None, "x,y", "m")
    loud: bool = option(False, "say more")
    inner: Inner = field(default_factory=lambda: Inner(100.0))
    by_code: int = 3


@dataclass(frozen=True)
class Fewer:
    without: ClassVar = ("mode", "names")
    options: Options = field(default_factory=Options)


def test_launch_arguments_have_defaults_as_text_and_say_what_is_allowed():
    assert launch_arguments(Options) == {
        "seed": ("", "of all noise; empty: as the file says"),
        "mode": ("slow", "how: slow, fast"),
        "place": ("", "x,y (m)"),
        "loud": ("false", "say more"),
        "rate_hz": ("100.0", "of samples (Hz)"),
        "names": ("", "who"),
    }
    assert list(launch_arguments(Fewer)) == ["seed", "place", "loud", "rate_hz"]


def test_texts_become_values():
    made = from_texts(
        Options,
        {
            "seed": "7", "mode": "fast", "place": "1, -2", "loud": "True", "rate_hz": "2.5",
            "names": "a, b,",
        },
    )  # fmt: skip
    assert made == Options(7, "fast", (1.0, -2.0), True, Inner(2.5, ("a", "b")))
    assert from_texts(Options, {"seed": "", "place": ""}) == Options()
    assert from_texts(Fewer, {"seed": "1"}).options.seed == 1


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("seed", "one", "argument seed: 'one' is not a number"),
        ("seed", "-1", "argument seed: '-1'; allowed: >= 0"),
        ("mode", "quick", "argument mode: 'quick'; allowed: slow, fast"),
        ("place", "1", "argument place: '1'; allowed: 2 numbers"),
        ("place", "1,x", "argument place: 'x' is not a number"),
        ("loud", "yes", "argument loud: 'yes'; allowed: true, false"),
        ("rate_hz", "0", "argument rate_hz: '0'; allowed: > 0 and <= 1000"),
        ("rate_hz", "nan", "argument rate_hz: 'nan'; allowed: > 0 and <= 1000"),
    ],
)
def test_what_is_wrong_is_named(name, text, words):
    with pytest.raises(InputError, match=words):
        from_texts(Options, {name: text})


def test_what_is_not_given_keeps_the_default_of_the_class_around_it():
    assert build(Options, {"names": ("a",)}) == Options(inner=Inner(100.0, ("a",)))


@dataclass(frozen=True)
class OfCommand:
    files: tuple[Path, ...] = argument("FILE...")
    options: Options = field(default_factory=Options)
    pages: Annotated[bool, Option("write pages", flags="--pages/--no-pages")] = True
    length_m: float | None = option(None, "how far", "m", flags="--length", gt=0.0)
    folder: Path | None = option(None, "to write to", path="folder")


def run(*arguments: str):
    seen = []

    @command(OfCommand)
    def made(options: OfCommand) -> int:
        """What it does."""
        seen.append((options, given(), given(Inner)))
        return 4

    group = click.Group("all", commands=[made])
    result = CliRunner().invoke(group, ["made", *arguments], standalone_mode=False)
    return result, seen


def test_a_command_gets_its_options_as_one_object():
    result, [(options, flags, inner)] = run(
        "a", "b", "--names", "x,y", "--names", "z", "--no-pages", "--rate-hz", "20", "--loud"
    )
    assert result.return_value == 4
    assert options.files == (Path("a"), Path("b"))
    assert options.options == Options(loud=True, inner=Inner(20.0, ("x", "y", "z")))
    assert (options.pages, options.length_m) == (False, None)
    assert set(flags.values()) == {"--names", "--pages", "--rate-hz", "--loud"} | {"files"}
    assert inner == {"names": "--names", "rate_hz": "--rate-hz"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument 'FILE...'"),
        (("a", "--length", "0"), "0.0 is not in the range x>0"),
        (("a", "--mode", "quick"), "'quick' is not one of 'slow', 'fast'"),
        (("a", "--seed", "-1"), "-1 is not in the range x>=0"),
        (("a", "--folder", __file__), "is a file"),
    ],
)
def test_bad_usage_is_clicks_to_refuse(arguments, words):
    result, seen = run(*arguments)
    assert not seen
    assert isinstance(result.exception, click.ClickException)
    assert words in result.exception.format_message()


def test_the_help_says_meaning_unit_and_default():
    result, _ = run("--help")
    words = " ".join(result.output.split())
    assert "What it does." in words
    assert "Of all noise. [default: as the file says] [x>=0]" in words
    assert "--length FLOAT RANGE How far (m). [x>0" in words
    assert "[default: slow]" in words

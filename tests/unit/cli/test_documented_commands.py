"""Every ``quadsim`` command in README and documents has a name and options that exist."""

import re
import shlex
from pathlib import Path

import click
import pytest

from quadsim.cli.main import main

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: What ends a command in a shell's line.
ENDS = {"&&", "||", "|", ";", "&", ">", ">>", "<", "2>"}
#: What may stand before the command; ``ros2 run quadsim`` names a package.
BEFORE = {*ENDS, "quadsim"}
#: ``./quadsim test`` is the script's own.
OF_THE_SCRIPT = {"test"}


def commands(text):
    """Words after ``quadsim`` of each command in the shell blocks of a page."""
    for block in re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.replace(";", " ; "), comments=True)
            for i, word in enumerate(words):
                before = words[i - 1] if i else "&&"
                if Path(word).name == "quadsim" and before in BEFORE:
                    rest = words[i + 1 :]
                    end = next((k for k, each in enumerate(rest) if each in ENDS), len(rest))
                    yield [each for each in rest[:end] if each != "..."]


def parse(command, name, args):
    """Let click read the words, down to the subcommand; nothing is run."""
    if isinstance(command, click.Group) and args and not args[0].startswith("-"):
        below = command.get_command(click.Context(command), args[0])
        assert below is not None, f"no command {args[0]}"
        parse(below, args[0], args[1:])
    else:
        command.make_context(name, list(args))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_can_be_read(page):
    wrong = []
    for words in commands(page.read_text(encoding="utf-8")):
        if words and words[0] in OF_THE_SCRIPT:
            continue
        try:
            parse(main, "quadsim", words)
        except (click.ClickException, AssertionError) as error:
            if "does not exist" not in str(error):  # a path of the reader's
                wrong.append(f"quadsim {shlex.join(words)}: {error}")
        except click.exceptions.Exit:  # --help
            pass
    assert not wrong, "\n".join(wrong)


def test_a_wrong_command_is_found():
    (first, second) = commands("```sh\n./quadsim fly --bad 1 && quadsim nowhere  # why\n```\n")
    with pytest.raises(click.ClickException):
        parse(main, "quadsim", first)
    with pytest.raises(AssertionError):
        parse(main, "quadsim", second)

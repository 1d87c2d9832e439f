"""What an extra brings is named in one line where it lacks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from quadsim.base.errors import InputError
from quadsim.base.extras import EXTRAS, need

SETUP = Path(__file__).parents[3] / "setup.py"


def test_what_lacks_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyulog", None)
    with pytest.raises(InputError, match=r"^a\.ulg: needs pyulog, .* 'quadsim\[firmware\]'$"):
        need("pyulog", "a.ulg")
    with pytest.raises(InputError, match=r"needs no_such_module, .*: pip install no_such_module$"):
        need("no_such_module", "this")


def test_what_is_there_is_imported():
    assert need("json.decoder", "this").JSONDecoder


def test_a_command_without_its_extra_is_refused_in_one_line(tmp_path):
    code = "import sys; sys.modules['pyarrow'] = None; from quadsim.cli.main import main; "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}main(['campaign', 'faults'])"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "quadsim: error: needs pyarrow, which is not installed: pip install 'quadsim[lab]'"
    )


def test_every_extra_is_one_of_the_package():
    offered = set(re.findall(r'^        "(\w+)": [A-Z]+,$', SETUP.read_text(), re.MULTILINE))
    assert {extra for _, extra in EXTRAS.values() if extra} <= offered

"""Every Python example of the documents runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("learning.md", "python.md", "parts.md", "tutorials/your-controller.md")
EXAMPLES = [
    code
    for page in PAGES
    for code in re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.M)
]


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "quadsim.gym" in code:
        pytest.importorskip("pettingzoo")
    if "casadi" in code:
        pytest.importorskip("casadi")
    exec(compile(code, "python.md", "exec"), {})


NOTEBOOKS = sorted((DOCS.parent / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    cells = json.loads(path.read_text())["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    if "quadsim.gym" in code:
        for package in ("gymnasium", "onnx", "onnxruntime"):
            pytest.importorskip(package)
        code = re.sub(r"^STEPS = .*$", "STEPS = 5_000", code, flags=re.M)  # it takes a minute
    monkeypatch.chdir(tmp_path)
    if not re.search("Parallel|quadsim.replay", code):
        exec(compile(code, path.name, "exec"), {"__name__": "notebook"})
        return
    Path("notebook.py").write_text(code)  # processes and parts are imported from there
    command = [sys.executable, "notebook.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""The site is built from the documents without a warning: no dead link, no page left out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import quadsim

ROOT = Path(__file__).parents[2]


def test_the_site_is_built_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = {path.parent.name for path in tmp_path.glob("**/index.html")}
    pages = {path.stem for path in (ROOT / "docs").glob("**/*.md")} - {"index"}
    assert pages <= written
    assert "not included in the" not in done.stderr  # the navigation names every page
    api = (tmp_path / "api/index.html").read_text()
    assert {f"quadsim.{name}" for name in quadsim.__all__} <= {*re.findall(r'id="([\w.]+)"', api)}
    assert not re.findall(r":[a-z]+:(?:`|<code>)", api)  # roles of Sphinx, which Markdown shows raw


def test_the_documents_are_short_enough_to_be_read():
    """Words, without the bars of tables and the signs of formulas."""
    pages = (ROOT / "docs").glob("**/*.md")
    words = " ".join(page.read_text(encoding="utf-8") for page in pages).split()
    assert sum(any(sign.isalnum() for sign in word) for word in words) <= 60_000
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split()
    assert len(readme) <= 950

"""Configuration files are found by name: shipped ones, those of the working folder, the user's."""

import pytest

from quadsim.base.errors import InputError
from quadsim.base.files import find, known, share_dir
from quadsim.base.whole_files import write_whole


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("config/vehicles/here", "home/quadsim/vehicles/mine", "config/vehicles/x500"):
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mass_kg: 1.0\n")
    return tmp_path


def test_own_files_are_found_by_name(own):
    assert find("vehicles", "here").resolve() == own / "config/vehicles/here.yaml"
    assert find("vehicles", "mine") == own / "home/quadsim/vehicles/mine.yaml"
    assert {"here", "mine", "x500"} <= set(known("vehicles"))
    assert known("vehicles").count("x500") == 1


def test_no_own_file_takes_the_place_of_a_shipped_one(own):
    assert find("vehicles", "x500") == share_dir() / "config/vehicles/x500.yaml"


def test_an_unknown_name_is_refused_with_what_there_is(own):
    with pytest.raises(InputError, match=r"unknown vehicle 'nothing'; known: .*here.*mine.*x500"):
        find("vehicles", "nothing")


def test_a_name_that_is_not_utf_8_does_not_spoil_a_file(tmp_path):
    write_whole(tmp_path / "report.html", "bag: fl\udcffg")  # as Python reads such a name
    assert (tmp_path / "report.html").read_bytes() == b"bag: fl?g"


def test_a_name_that_is_nearly_right_is_told_what_is_meant(own):
    with pytest.raises(InputError, match=r"unknown vehicle 'x50' \(did you mean x500\?\); known:"):
        find("vehicles", "x50")

"""What DDS is told, and what somebody has chosen stays."""

import os
import tempfile
from importlib.metadata import PackageNotFoundError

import pytest
from defusedxml import ElementTree

from quadsim.ros.runtime import dds_environment
from quadsim.ros.runtime.dds_environment import PROFILES, set_dds_environment

OURS, OLD = PROFILES


def after(given, monkeypatch, release="9.1.2"):
    """The environment that begins as given."""
    monkeypatch.setattr(dds_environment, "version", {"rclpy": release}.__getitem__)
    monkeypatch.setattr(os, "environ", dict(given))
    set_dds_environment()
    return dict(os.environ)


def test_nodes_are_heard_here_and_have_a_file_of_profiles(monkeypatch):
    chosen = after({}, monkeypatch)
    assert chosen["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    profiles = ElementTree.parse(chosen[OURS]).getroot()[0]
    assert [each.get("is_default_profile") for each in profiles] == ["true", "true"]


@pytest.mark.parametrize("name", PROFILES)
def test_what_somebody_has_chosen_stays(monkeypatch, name):
    given = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", name: "/etc/mine.xml"}
    assert after(given, monkeypatch) == given


def test_an_older_fast_dds_is_told_nothing_that_it_does_not_know(monkeypatch):
    assert OURS not in after({}, monkeypatch, "7.1.11")


def test_an_rclpy_of_no_known_release_is_told_nothing(monkeypatch):
    def version(_):
        raise PackageNotFoundError

    monkeypatch.setattr(dds_environment, "version", version)
    assert dds_environment.release() == ()


def test_logs_go_to_a_temporary_folder_where_the_home_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"quadsim-{os.getuid()}" / "ros-log"
    assert after({"HOME": "/proc/none"}, monkeypatch)["ROS_LOG_DIR"] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "ROS_LOG_DIR" not in after({"HOME": str(tmp_path)}, monkeypatch)
    given = {"HOME": "/proc/none", "ROS_LOG_DIR": "/mine"}
    assert after(given, monkeypatch)["ROS_LOG_DIR"] == "/mine"

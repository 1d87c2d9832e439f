"""Numba's index of kernels is a pickle: a folder that others may write is not loaded from."""

import lzma
import os
import pickle
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from quadsim.base import kernel_folder

SAY = "import quadsim, os; print(os.environ['NUMBA_CACHE_DIR'])"
LOAD = "from quadsim.geometry.rotation import rotate; rotate((1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0))"


def run(code: str, umask: int = 0o022, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=kept | environment,
        umask=umask,
        check=False,
    )


@pytest.fixture
def safe(tmp_path):
    """A folder that only its owner writes, as are all above it (pytest's own are 0700)."""
    return tmp_path


def refused(done: subprocess.CompletedProcess[str], words: str) -> bool:
    return (
        done.returncode == 2
        and len(done.stderr.splitlines()) == 1
        and words in done.stderr
        and "NUMBA_CACHE_DIR" in done.stderr
    )


@pytest.mark.parametrize("umask", [0o022, 0o000], ids=["usual", "open"])
def test_the_folder_is_made_for_its_owner_alone(safe, umask):
    done = run(SAY, umask, HOME=str(safe))
    folder = Path(done.stdout.strip())
    assert folder.parent == safe / ".cache" / "quadsim"
    for ours in (folder, folder.parent):
        assert ours.stat().st_mode & 0o777 == 0o700
    assert not done.stderr


def test_a_folder_of_an_older_version_is_closed_and_kept(safe):
    folder = Path(run(SAY, HOME=str(safe)).stdout.strip())
    (folder / "sources").write_text("x")
    folder.chmod(0o755)
    done = run(SAY, HOME=str(safe))
    assert (done.returncode, done.stderr) == (0, "")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "sources").exists()


@pytest.mark.parametrize("inside", [False, True])
def test_kernels_that_others_could_write_are_compiled_anew(safe, inside):
    folder = Path(run(SAY, HOME=str(safe)).stdout.strip())
    (folder / "part").mkdir()
    (folder / "part" / "kernel.nbi").write_bytes(b"")
    if inside:
        (folder / "part" / "kernel.nbi").chmod(0o666)
    folder.chmod(0o755 if inside else 0o777)
    done = run(SAY, HOME=str(safe))
    assert done.returncode == 0
    assert done.stderr.startswith("quadsim: kernels are compiled anew: others may write")
    assert len(done.stderr.splitlines()) == 1
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("variable", "open_"),
    [
        ("NUMBA_CACHE_DIR", "."),
        ("NUMBA_CACHE_DIR", "quadsim"),
        ("XDG_CACHE_HOME", "."),
        ("XDG_CACHE_HOME", "quadsim/kernel.nbi"),
    ],
)
def test_a_users_folder_that_others_may_write_is_refused(safe, variable, open_):
    folder = safe / "given"
    (folder / "quadsim").mkdir(parents=True)
    (folder / "quadsim" / "kernel.nbi").write_bytes(b"")
    if variable == "XDG_CACHE_HOME":  # the file is where kernels would be
        made = Path(run(SAY, XDG_CACHE_HOME=str(folder)).stdout.strip())
        (made / "kernel.nbi").write_bytes(b"")
        open_ = open_.replace("quadsim/kernel.nbi", f"quadsim/{made.name}/kernel.nbi")
    place = folder / open_
    assert run(SAY, **{variable: str(folder)}).returncode == 0
    place.chmod(place.stat().st_mode | 0o002)
    done = run(SAY, **{variable: str(folder)})
    assert refused(done, f"others may write {place}")


def test_a_folder_below_one_that_others_may_write_is_refused(safe):
    """They could put another in its place; in a sticky one, as /tmp, they cannot."""
    above = safe / "above"
    (above / "kernels").mkdir(parents=True)
    above.chmod(0o777)
    assert refused(run(SAY, NUMBA_CACHE_DIR=str(above / "kernels")), f"others may write {above}")
    above.chmod(0o1777)
    assert run(SAY, NUMBA_CACHE_DIR=str(above / "kernels")).returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="to give a file away takes the superuser")
def test_a_folder_of_somebody_else_is_refused(safe):
    folder = safe / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    assert refused(run(SAY, NUMBA_CACHE_DIR=str(folder)), f"{folder} belongs to user 12345")


def test_a_pickle_that_somebody_else_put_there_does_not_run(safe):
    """Numba's own index, replaced by one that leaves a mark when it is loaded."""

    class Mark:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(safe / "it ran"),)

    folder = safe / "kernels"
    folder.mkdir()
    assert run(LOAD, NUMBA_CACHE_DIR=str(folder)).returncode == 0
    indices = list(folder.rglob("*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(pickle.dumps(Mark()))
    indices[0].chmod(0o666)
    assert refused(run(LOAD, NUMBA_CACHE_DIR=str(folder)), "others may write")
    assert not (safe / "it ran").exists()


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A package that came with a kernel, on a machine whose processor is the wheel's baseline."""
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr("geometry/rotation/0123/rotate.nbi", b"compiled")
    (tmp_path / "kernels.zip.xz").write_bytes(lzma.compress(content.getvalue()))
    (tmp_path / "cpuinfo").write_text(
        "flags\t\t: fpu abm avx avx2 bmi1 bmi2 f16c fma movbe xsave\n"
    )
    monkeypatch.setattr(kernel_folder, "SHIPPED", tmp_path / "kernels.zip.xz")
    monkeypatch.setattr(kernel_folder, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(kernel_folder, "BASELINES", {
        os.uname().machine: kernel_folder.BASELINES["x86_64"],
    })  # fmt: skip
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.setenv(name, "")  # so that what is set is taken back
        monkeypatch.delenv(name)
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_kernels_of_a_wheel_are_unpacked_once_and_taken(shipped):
    cache = shipped / "cache"
    kernel_folder.use_shipped(cache)
    kernel = cache / "geometry" / "rotation" / "0123" / "rotate.nbi"
    assert kernel.read_bytes() == b"compiled"
    assert kernel_folder.is_filled()
    assert os.environ["NUMBA_CPU_NAME"] == "x86-64-v3"
    assert os.environ["NUMBA_CPU_FEATURES"] == ""
    kernel.unlink()
    kernel_folder.use_shipped(cache)
    assert not kernel.exists()


def test_kernels_of_a_wheel_are_left_where_the_processor_has_less(shipped):
    (shipped / "cpuinfo").write_text("flags\t\t: fpu sse2\n")
    kernel_folder.use_shipped(shipped / "cache")
    assert not list((shipped / "cache").iterdir())
    assert "NUMBA_CPU_NAME" not in os.environ


# ---- where a home cannot be written ------------------------------------------------------------

#: A process, and one that it starts: the folder of both.
TWICE = f"{SAY}; import subprocess, sys; subprocess.run([sys.executable, '-c', {SAY!r}])"


@pytest.mark.parametrize(
    "unwritable",
    [
        {"HOME": "/proc/none"},
        {"HOME": "", "XDG_CACHE_HOME": "/proc"},
        {"NUMBA_CACHE_DIR": "/proc/none"},
    ],
)
def test_without_a_place_of_its_own_it_is_a_temporary_folder_of_the_user(safe, unwritable):
    done = run(TWICE, TMPDIR=str(safe), **unwritable)
    first, second = map(Path, done.stdout.split())
    assert first == second
    assert first.parent == safe / f"quadsim-{os.getuid()}"
    assert first.stat().st_mode & 0o777 == first.parent.stat().st_mode & 0o777 == 0o700
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"quadsim: compiled kernels are in {first}: /proc")
    assert run(SAY, TMPDIR=str(safe), **unwritable).stdout.strip() == str(first)  # and later


def test_kernels_are_compiled_and_kept_there(safe):
    done = run(LOAD, HOME="/proc/none", TMPDIR=str(safe))
    assert done.returncode == 0, done.stderr
    assert list(safe.rglob("*.nbi"))


def test_a_home_without_room_is_named(safe, monkeypatch):
    monkeypatch.setattr(kernel_folder, "NEEDED_BYTES", 1 << 62)
    assert "has room for" in kernel_folder._why_unwritable(safe / "new")
    (safe / "new" / "kernel.nbi").write_bytes(b"")
    assert kernel_folder._why_unwritable(safe / "new") == ""  # it has had its room


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's folder")
def test_another_users_folder_of_that_name_is_left_alone(safe):
    others = safe / f"quadsim-{os.getuid()}"
    others.mkdir()
    os.chown(others, 1, 1)
    folder = Path(run(SAY, HOME="/proc/none", TMPDIR=str(safe)).stdout.strip())
    assert folder.parent == safe
    assert folder != others


def test_where_nothing_can_be_written_it_ends_with_one_line():
    code = "import tempfile; tempfile.tempdir = '/proc'; import quadsim"
    assert refused(run(code, HOME="/proc/none"), "no room for compiled kernels")

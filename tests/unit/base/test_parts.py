"""Own parts: how they are found, and what is said of those that cannot be used."""

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from quadsim.base import parts
from quadsim.base.errors import InputError
from quadsim.base.parts import Part, fitted, given_parts, is_part, parts_from, parts_out

GOOD = """
class Gust:
    def __init__(self, rng, speed_mps=3.0):
        self.rng, self.speed_mps = rng, speed_mps

    def velocity(self, time_s, p_W):
        return [self.speed_mps, 0.0, 0.0]


class Lacks:
    pass


class Fails:
    def __init__(self):
        raise RuntimeError("no fuel")

    def velocity(self, time_s, p_W):
        return [0.0, 0.0, 0.0]


number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder that is not on Python's path, with a module."""
    (tmp_path / "own_gust.py").write_text(GOOD)
    (tmp_path / "own_broken.py").write_text("import no_such_thing\n")
    (tmp_path / "own_syntax.py").write_text("def x(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("own_gust", "own_broken", "own_syntax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_part_of_the_working_folder_gets_what_its_constructor_names(folder):
    made = Part("wind", "own_gust:Gust", {"speed_mps": 4.0}).make(rng="noise", vehicle="unused")
    assert (made.rng, made.speed_mps) == ("noise", 4.0)
    assert made.velocity(0.0, None) == [4.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("wind", "own_nothing:Gust", r"no module own_nothing; looked in .*{folder}"),
        ("wind", "own_gust:Calm", r"no Calm in .*own_gust.py"),
        ("wind", "own_gust:Lacks", r"no method velocity\(\); write def velocity\(self, time_s"),
        ("controller", "own_gust:Gust", r"no method update\(\); write def update\(self, now\)"),
        ("wind", "own_gust:number", "is 3; a class is needed"),
        ("wind", "own_broken:Gust", r"no_such_thing.*own_broken.py:1"),
        ("wind", "own_syntax:Gust", "SyntaxError"),
        ("wind", "own_gust:", "allowed: module:Class"),
        ("wind", "breeze", r"no entry point of quadsim.winds; installed: none"),
    ],
)
def test_what_cannot_be_used_is_named(folder, kind, name, said):
    with pytest.raises(InputError, match=said.format(folder=folder.name)) as error:
        Part(kind, name).load()
    assert str(error.value).startswith(f"{kind} {name}: ")
    assert "\n" not in str(error.value)


def test_wrong_arguments_and_constructors_that_raise_are_named(folder):
    with pytest.raises(InputError, match=r"wind own_gust:Gust: cannot be made: .*'speed'"):
        Part("wind", "own_gust:Gust", {"speed": 1.0}).make(rng=None)
    with pytest.raises(InputError, match="missing 1 required positional argument: 'rng'"):
        Part("wind", "own_gust:Gust").make()
    with pytest.raises(InputError, match=r"RuntimeError: no fuel \(.*own_gust.py:16\)"):
        Part("wind", "own_gust:Fails").make()


def test_an_entry_point_is_found_by_its_name(folder, monkeypatch):
    point = EntryPoint("gusty", "own_gust:Gust", "quadsim.winds")
    monkeypatch.setattr(
        parts, "_entry_points", lambda kind: EntryPoints([point] if kind == "wind" else [])
    )
    sys.path.append(str(folder))
    assert Part("wind", "gusty").make(rng=None).speed_mps == 3.0
    assert is_part("wind", "gusty")
    assert not is_part("controller", "gusty")


def test_names_of_files_are_no_parts():
    assert is_part("estimator", "my:Filter")
    for name in ("eskf", "./mine.yaml", "C:/mine.yaml", None):
        assert not is_part("estimator", name)


def test_parts_are_read_changed_and_written():
    content = {"controller": "my:Pid", "sensor": ["my:Flow", {"part": "my:Uwb", "sigma": 0.1}]}
    changes = {
        "controller.gain": 2.0, "sensor.1.sigma": 0.3, "wind": "my:Gust", "wind.speed": 1.0
    }  # fmt: skip
    read = parts_from(content, changes, "here")
    assert read == (
        Part("controller", "my:Pid", {"gain": 2.0}),
        Part("sensor", "my:Flow"),
        Part("sensor", "my:Uwb", {"sigma": 0.3}),
        Part("wind", "my:Gust", {"speed": 1.0}),
    )
    assert parts_from(parts_out(read), {}, "again") == read
    assert content["controller"] == "my:Pid"


@pytest.mark.parametrize(
    ("content", "changes", "said"),
    [
        ({"engine": "my:V8"}, {}, "'engine'; allowed: controller, estimator"),
        ({"controller": ["a:B", "c:D"]}, {}, "2 of them; allowed: one"),
        ({"controller": {"gain": 1.0}}, {}, "expected module:Class"),
        ({"controller": 3}, {}, "expected module:Class"),
        ({}, {"controller.gain": 1.0}, r"parts.controller.gain: there is no own controller"),
        (["my:Pid"], {}, "expected keys and values"),
        ({"criterion": "my:Jerk"}, {}, "'criterion'; allowed"),
    ],
)
def test_wrong_parts_are_refused(content, changes, said):
    with pytest.raises(InputError, match=said):
        parts_from(content, changes, "here")


def test_objects_and_classes_are_given_by_programs():
    class Gust:
        def velocity(self, time_s, p_W):
            return [0.0, 0.0, 0.0]

        def reset(self):
            self.resets = getattr(self, "resets", 0) + 1

    gust = Gust()
    by_object, by_class = given_parts({"wind": gust}) + given_parts({"wind": Gust})
    assert by_object.make() is by_object.make() is gust
    assert gust.resets == 2
    assert type(by_class.make()) is Gust
    assert by_class.name.endswith(":Gust")
    with pytest.raises(InputError, match="'sail'"):
        given_parts({"sail": gust})


def test_a_method_takes_as_many_values_as_it_names():
    assert fitted(lambda a, b: (a, b))(1, 2, 3) == (1, 2)
    assert fitted(lambda *all_: all_)(1, 2, 3) == (1, 2, 3)
    assert fitted(lambda a, b=5, *, c=6: (a, b, c))(1, 2, 3) == (1, 2, 6)


def test_a_kernel_is_loaded_whatever_its_module_is_called(tmp_path):
    """Its machine code is kept on disk, with the name of the module it was compiled in."""
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "own_kernel.py").write_text(
        "import quadsim\n\n\n@quadsim.kernel\ndef twice(x):\n    return 2.0 * x\n"
    )
    for path, module in ((tmp_path / "pack", "own_kernel"), (tmp_path, "pack.own_kernel")) * 2:
        code = f"import sys; sys.path.insert(0, {str(path)!r}); from {module} import twice as t"
        done = subprocess.run(
            [sys.executable, "-c", f"{code}; print(t(3.0))"],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.stdout == "6.0\n", done.stderr

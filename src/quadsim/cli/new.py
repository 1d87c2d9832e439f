"""``quadsim new``: the skeleton of a part of the user's own, with its test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

import click

from quadsim.base.errors import InputError
from quadsim.base.options import argument
from quadsim.base.parts import PART_KINDS
from quadsim.cli.options import command

_TEST = '''"""Flies the {kind} {cls}: pytest {file}."""

import quadsim
from {module} import {cls}


def test_{module}_flies():
    flight = quadsim.Simulation("hover", seed=1{given}).run()
    assert flight.passed, flight.summary["criteria"] + flight.summary["errors"]
{more}'''
_OF_CRITERION = "    assert {cls}().value(flight.log) >= 0.0\n"


#: A sensor of quadsim's own, not a part.
MODEL = "sensor_model"


def _new_model(name: str) -> None:
    """Write module and device of a sensor into the checkout that is the working folder."""
    from quadsim.base.files import share_dir

    module, device = Path(f"src/quadsim/sensors/{name}.py"), Path(f"config/sensors/{name}.yaml")
    for path in (module, device):
        if not path.parent.is_dir():
            raise InputError(f"new {MODEL} {name}: no {path.parent} here; call it in a checkout")
        if path.exists():
            raise InputError(f"{path}: exists already; take another name")
    source = (share_dir() / "examples" / "parts" / f"{MODEL}.py").read_text(encoding="utf-8")
    cls = "".join(word.capitalize() for word in name.split("_"))
    source = source.replace("Altimeter", cls).replace("altimeter", name)
    module.write_text(source, encoding="utf-8")
    device.write_text(f"sensor: {name}\nnoise_sigma_m: 0.05  # ours\n", encoding="utf-8")
    click.echo(f"{module}: change it; {device}: the figures of a data sheet")
    click.echo("src/quadsim/sensors/__init__.py: add to TABLE")
    topic = f'SensorTopic("{name}", RANGE, "base_link")'
    click.echo(f'    "{name}": Entry(({topic},), "{name}"),')


@dataclass(frozen=True)
class NewOptions:
    """Options of ``quadsim new``."""

    kind: str = argument()
    name: str = argument()


@command(NewOptions)
def new(options: NewOptions) -> None:
    """Write NAME.py with a part of your own that flies as it stands, and test_NAME.py.

    KIND is controller, estimator, sensor, planner, wind or criterion (docs/parts.md). In a checkout
    sensor_model writes module and device of a sensor for everybody (CONTRIBUTING.md).
    """
    from quadsim.base.files import share_dir

    kind, name = options.kind, options.name
    if kind not in (*PART_KINDS, MODEL):
        allowed = ", ".join((*PART_KINDS, MODEL))
        raise InputError(f"new {kind}: no kind of part; allowed: {allowed}")
    if not name.isidentifier() or iskeyword(name):
        raise InputError(f"new {kind} {name}: no name of a module; allowed: letters, digits and _")
    if kind == MODEL:
        _new_model(name)
        return
    script, test = Path(f"{name}.py"), Path(f"test_{name}.py")
    for path in (script, test):
        if path.exists():
            raise InputError(f"{path}: exists already; take another name")
    if find_spec(name) is not None:
        raise InputError(f"new {kind} {name}: a module {name} is installed; take another name")
    source = (share_dir() / "examples" / "parts" / f"{kind}.py").read_text(encoding="utf-8")
    cls = name if name[0].isupper() else "".join(word.capitalize() for word in name.split("_"))
    use = f"criteria: [{{part: {name}:{cls}, limit: ...}}]"
    use = use if kind == "criterion" else f"quadsim sim --{kind} {name}:{cls}"
    source = re.sub(r'^""".*?"""', f'"""A {kind} of your own: {use}"""', source, flags=re.DOTALL)
    script.write_text(re.sub(r"\bclass \w+", f"class {cls}", source, count=1), encoding="utf-8")
    given = {"criterion": "", "controller": f", controller={cls}"}
    text = _TEST.format(
        kind=kind,
        cls=cls,
        file=test,
        module=name,
        given=given.get(kind, f', parts={{"{kind}": {cls}}}'),
        more=_OF_CRITERION.format(cls=cls) if kind == "criterion" else "",
    )
    test.write_text(text, encoding="utf-8")
    click.echo(f"{script}: change it, and use it: {use}")
    click.echo(f"{test}: pytest {test}")

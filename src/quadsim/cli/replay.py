"""``quadsim replay``: estimators over a bag, scored against its truth."""

from __future__ import annotations

from pathlib import Path

import click

from quadsim.cli.common import (
    FlightProgress,
    exit_status,
    json_option,
    loading,
    to_json,
)
from quadsim.errors import InputError


def _datum(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> tuple[float, float, float] | None:
    """Three numbers from LAT,LON,H."""
    if text is None:
        return None
    try:
        latitude_deg, longitude_deg, height_m = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not LAT,LON,H (degrees, degrees, metres)") from None
    return latitude_deg, longitude_deg, height_m


class EstimatorOption(click.Option):
    """An option whose help names the estimators; the registry is loaded for that only then."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Name and help."""
        from quadsim.estimation import ESTIMATORS

        *names, last = ESTIMATORS
        self.help = (
            f"{', '.join(names)} or {last}; may be given several times, "
            "the first is the one asked about."
        )
        return super().get_help_record(ctx)


@click.command()
@click.argument("bag", type=click.Path(path_type=Path))
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    default=("eskf",),
    show_default=True,
    cls=EstimatorOption,
)
@click.option("--namespace", default="/quad", show_default=True, help="The vehicle in the bag.")
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(min=0.0),
    default=5.0,
    show_default=True,
    help="Time from the start that is not scored, s.",
)
@click.option("--config", help="Parameters: a file of config/estimators, or a path.")
@click.option("--datum", callback=_datum, help="Origin of map as LAT,LON,H, in degrees and m.")
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML report here."
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the JSON here too."
)
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    bag: Path,
    estimators: tuple[str, ...],
    namespace: str,
    settle_s: float,
    config: str | None,
    datum: tuple[float, float, float] | None,
    report: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run estimators over the sensor topics of BAG and score them against its ground truth.

    BAG is a rosbag2 folder or a single .mcap or .db3 file. A bag that was cut is repaired first.
    Exit status: 0 the estimators ran, 1 one never started, 2 bad input.
    """
    from quadsim.analysis.replay import Settings, estimator_params, load_kernels
    from quadsim.analysis.replay import replay as run
    from quadsim.analysis.summary import summarize
    from quadsim.analysis.whole_files import write_whole
    from quadsim.cli.show import show_summary
    from quadsim.geometry.geodesy import Datum
    from quadsim.parameters import from_mapping

    place = None
    if datum is not None:
        keys = ("latitude_deg", "longitude_deg", "height_m")
        place = from_mapping(Datum, dict(zip(keys, datum, strict=True)), "--datum")
    if report is not None and report.suffix != ".html":
        raise InputError(f"--report {report}: a report ends in .html")
    settings = Settings(estimators, namespace, estimator_params(config), place)
    with loading("loading the kernels"):
        load_kernels(settings)
    with FlightProgress(bag.name, None) as progress:
        result = run(bag, settings, progress.update)
    log = result.log
    log.wall_s = result.wall_s
    summary = summarize(log, settle_s=settle_s, bag=bag, report=report)
    summary["duration_s"] = result.flown_s
    summary["real_time_factor"] = result.flown_s / result.wall_s
    summary["counts"] = result.counts
    summary["passed"] = len(log.estimates) == len(set(estimators))
    if report is not None:
        from quadsim.analysis.report.page import write_report

        label = log.scenario or bag.name
        write_report({label: log}, {label: summary}, report)
    if output is not None:
        write_whole(output, to_json(summary) + "\n")
    show_summary(summary, as_json)
    ctx.exit(exit_status(summary["passed"]))

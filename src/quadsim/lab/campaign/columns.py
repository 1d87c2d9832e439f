"""Names of the columns of a campaign's table, and how a factor's is told from the others."""

from __future__ import annotations

#: Figures of every run, by their dotted names in the summary.
FIGURES = (
    "estimator.position_rmse_m",
    "estimator.position_max_m",
    "estimator.velocity_rmse_mps",
    "estimator.yaw_rmse_rad",
    "estimator.tilt_rmse_rad",
    "estimator.nees_mean",
    "tracking.position_rmse_m",
    "duration_s",
)

#: Largest share of a limit that any criterion reached: beyond 1 it is missed.
OF_LIMIT = "of_limit"

#: Before the names of columns that the criteria give.
CRITERION = "criterion."

#: Before the name of a factor that is called like a column of every run.
VARIED = "vary."

#: Columns of every run.
RUN_COLUMNS = (
    "run", "sample", "seed", "scenario", "status", "missed", "reason", OF_LIMIT, *FIGURES, "digest",
)  # fmt: skip


def is_reserved(name: str) -> bool:
    """Whether a table has, or may have, another column of this name."""
    return name in RUN_COLUMNS or name.startswith((CRITERION, VARIED))


def factor_column(name: str) -> str:
    """The column of a factor: its name, ``vary.duration_s`` where another column has that."""
    return VARIED + name if is_reserved(name) else name

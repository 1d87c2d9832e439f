"""The smoother's forward pass: the filter over a whole flight in the order of the stamps."""

from __future__ import annotations

from quadsim.base.compiled import Records, kernel
from quadsim.estimation.eskf.driver import JOIN, log_state, process
from quadsim.estimation.eskf.layout import Eskf
from quadsim.estimation.eskf.measurement_buffer import NEVER_NS, Event, Step, Timeline


@kernel
def drain(lines: Records[Timeline], store: Records[Event], at: int) -> int:
    """Move what a line has accepted into a store, and leave the line without a past.

    Returns:
        How many events there were.
    """
    line = lines[0]
    count = line.count
    for i in range(count):
        store[at + i] = line.events[i]
    line.count = 0
    line.newest_imu_ns = NEVER_NS
    return count


@kernel
def forward(
    lines: Records[Timeline],
    events: Records[Event],
    first: int,
    last: int,
    points: Records[Eskf],
    steps: Records[Step],
    logs_steps: int,
) -> int:
    """Run the filter over a part of the flight that ends with an IMU sample, or with the flight.

    Args:
        lines: (1,) TIMELINE.
        events: (K,) EVENT in the order of their stamps, of equal ones the IMU first.
        first: index of the part's first event.
        last: index behind its last one.
        points: (C,) ESKF, see :func:`~quadsim.estimation.eskf.driver.process`.
        steps: (C,) STEP.
        logs_steps: 1: they are written.

    Returns:
        How many states were logged.
    """
    line = lines[0]
    line.logs_steps, line.step_count = logs_steps, 0
    if line.state.running == 1:
        log_state(line, JOIN, -1, 0.0, points, steps)
    process(line, events, first, last, points, steps)
    line.logs_steps = 0
    return line.step_count

"""Lines of a swarm's events."""

from quadsim.ros.nodes.swarm import SwarmLog


def test_a_line_for_each_kind_of_event_however_many_fly():
    log = SwarmLog()
    for i in range(1, 101):
        events = [(10, 0, "armed", "motors idle"), (20, 0, "takeoff", f"to {i} m")]
        log.take(f"quad{i}", events)
    log.take("quad7", [(30, 2, "crash", "the hull struck the ground: motors off")])
    assert log.lines() == [
        (0, "armed: quad1, quad2, quad3, quad4, quad5 and 95 more (motors idle)"),
        (0, "takeoff: quad1, quad2, quad3, quad4, quad5 and 95 more"),
        (2, "crash: quad7 (the hull struck the ground: motors off)"),
    ]
    assert log.lines() == []
    log.take("quad3", [(40, 0, "landed", "touch-down")])
    assert log.lines() == [(0, "landed: quad3 (touch-down)")]

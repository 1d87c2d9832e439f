"""What a million runs cost, from measured figures: the arithmetic, by hand."""

import million_runs
import pytest

#: Round figures: a run of 0.36 s, handing out of 1 ms by the campaign and 2 ms by the scheduler.
MEASURED = {
    "flight_cpu_s": 0.36, "ready_s": 0.0, "memory_MB": 250.0, "ready_read_MB": 40.0,
    "line_bytes": 700.0, "table_bytes": 200.0, "table_us": 60.0,
    "handing": [
        {"width": 100, "batch": 1, "feeder_ms_a_run": 1.0, "scheduler_ms_a_run": 2.0,
         "bytes_a_run": 16e3},
        {"width": 1000, "batch": 1, "feeder_ms_a_run": 1.0, "scheduler_ms_a_run": 2.0,
         "bytes_a_run": 16e3},
    ],
}  # fmt: skip


def test_workers_bound_a_small_cluster() -> None:
    plan = million_runs.Plan(runs=1_000_000, cores=100, batch=1, price=0.04, speed=1.0)

    cost = million_runs.cost(plan, MEASURED)

    assert cost["core_hours"] == pytest.approx(100.0)  # 360 000 s
    assert cost["hours"] == pytest.approx(1.0)
    assert cost["price"] == pytest.approx(4.0)
    assert cost["scheduler_share"] == pytest.approx(2000.0 / 3600.0)
    assert cost["network_MB_s"] == pytest.approx(1e6 / 3600.0 * 0.016)
    assert (cost["memory_GB"], cost["start_read_GB"]) == pytest.approx((25.0, 4.0))
    assert (cost["record_GB"], cost["table_GB"]) == pytest.approx((0.7, 0.2))
    assert cost["table_minutes"] == pytest.approx(1.0)


def test_the_scheduler_bounds_a_large_one_whose_cores_are_paid_for_all_the_same() -> None:
    plan = million_runs.Plan(runs=1_000_000, cores=1000, batch=1, price=0.04, speed=2.0)

    cost = million_runs.cost(plan, MEASURED)

    assert cost["core_hours"] == pytest.approx(50.0)  # of cores that are twice as fast
    assert cost["hours"] == pytest.approx(1000.0 / 3600.0)  # 2 ms a run, at twice the speed
    assert cost["price"] == pytest.approx(1000.0 / 3600.0 * 1000 * 0.04)
    assert (cost["scheduler_share"], cost["feeder_share"]) == pytest.approx((1.0, 0.5))
    assert cost["runs_s"] == pytest.approx(1000.0)

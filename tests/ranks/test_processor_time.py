"""The scheduler's counters of ranks and of the processes that they started, from a /proc of our own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddpdoctor.ranks.processor_time import ProcessorTimes, as_text, from_text


def counters(proc: Path, pid: int, ran: float, ready: float, children: str = "") -> None:
    """Write what the kernel says of the main thread of `pid`, in seconds, and which processes it started."""
    task = proc / str(pid) / "task" / str(pid)
    task.mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "schedstat").write_text(f"{int(ran * 1e9)} {int(ready * 1e9)} 7\n")
    (task / "children").write_text(children)


def test_what_happened_between_the_first_and_the_last_reading_counts(tmp_path: Path) -> None:
    times = ProcessorTimes(proc=tmp_path)
    counters(tmp_path, 10, ran=5.0, ready=1.0)
    times.observe({0: 10}, now=100.0)
    assert times.of_rank(0) is None
    counters(tmp_path, 10, ran=6.0, ready=3.5)
    times.observe({0: 10}, now=104.0)
    found = times.of_rank(0)
    assert found is not None
    assert (found.seconds, found.ran, found.ready, found.workers_ready) == pytest.approx((4.0, 1.0, 2.5, 0.0))
    assert from_text(as_text(times.by_rank())) == {0: found}


def test_of_workers_the_one_that_waits_longest_counts_and_each_epoch_has_its_own(tmp_path: Path) -> None:
    times = ProcessorTimes(proc=tmp_path)
    for now, workers in enumerate(({}, {20: 0.2, 21: 0.7}, {20: 0.4, 21: 1.4}, {30: 0.5}, {})):
        counters(tmp_path, 10, ran=0.0, ready=0.0, children=" ".join(map(str, workers)))
        for pid, ready in workers.items():
            counters(tmp_path, pid, ran=0.0, ready=ready)
        times.observe({0: 10}, now=100.0 + 2 * now)
    found = times.of_rank(0)
    assert found is not None
    assert found.workers_ready == pytest.approx(0.7 + 0.7 + 0.5)


def test_all_threads_of_a_rank_and_of_the_processes_that_it_started_count_together(tmp_path: Path) -> None:
    times, ticks = ProcessorTimes(proc=tmp_path), os.sysconf("SC_CLK_TCK")
    for now, worker in enumerate((5, 8, 9)):
        counters(tmp_path, os.getpid(), ran=0.0, ready=0.0, children="20")
        counters(tmp_path, 20, ran=0.0, ready=0.0)
        for pid, used in ((os.getpid(), 3 + now), (20, worker)):
            before = "(a name) S" + " 0" * 10
            (tmp_path / str(pid) / "stat").write_text(f"{pid} {before} {used * ticks} {used * ticks} 0\n")
        times.observe({0: os.getpid()}, now=100.0 + 2 * now)
    found = times.of_rank(0)
    assert found is not None
    assert found.used == pytest.approx(2 * (1 + 3) + 2 * (1 + 1))
    assert found.processors == len(os.sched_getaffinity(0))


def test_a_process_that_is_gone_and_a_kernel_without_counters_say_nothing(tmp_path: Path) -> None:
    times = ProcessorTimes(proc=tmp_path)
    times.observe({0: 10}, now=100.0)
    times.observe({0: 10}, now=102.0)
    assert times.of_rank(0) is None
    assert times.of_rank(1) is None


def test_a_rank_that_was_started_again_begins_anew(tmp_path: Path) -> None:
    times = ProcessorTimes(proc=tmp_path)
    counters(tmp_path, 10, ran=50.0, ready=50.0)
    counters(tmp_path, 11, ran=0.0, ready=0.5)
    times.observe({0: 10}, now=100.0)
    times.observe({0: 11}, now=102.0)
    assert times.of_rank(0) is None

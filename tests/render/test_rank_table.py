"""The rows of `ddpdoctor top`: which columns fit, who is marked."""

from __future__ import annotations

import io

from rich.console import Console

from ddpdoctor.analysis.hangs.ranks_to_look_at import ranks_to_look_at
from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.render.rank_table import in_order, table


def waiting(rank: int) -> RankStatus:
    """A rank that has waited in a collective for eight seconds."""
    return RankStatus(
        rank=rank, host="node-3", pid=4000 + rank, state="all_reduce #812", line="train.py:61", steps=270,
        steps_per_second=3.25, late_seconds=0.0005, cpu_share=0.01, memory_bytes=2**31, idle_seconds=8.0, waits_for_peers=True,
    )  # fmt: skip


ELSEWHERE = RankStatus(rank=2, host="node-3", pid=4002, state="data loader", line="train.py:40", idle_seconds=8.0)
HUNG = (waiting(0), waiting(1), ELSEWHERE, waiting(3))


def drawn(statuses: tuple[RankStatus, ...], width: int) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    console.print(table(statuses, ranks_to_look_at(statuses), width=width))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_rank_that_others_wait_for_is_marked() -> None:
    lines = drawn(HUNG, 160)
    assert lines[0].split() == [
        "rank",
        "host",
        "pid",
        "state",
        "line",
        "step",
        "step/s",
        "late",
        "ms",
        "cpu",
        "%",
        "mem",
        "G",
        "idle",
        "s",
    ]
    assert [line[0] for line in lines[1:]] == [" ", " ", "▶", " "]
    assert lines[1].split() == [
        "0", "node-3", "4000", "all_reduce", "#812", "train.py:61", "270", "3.25", "0.5", "1", "2.0", "8",
    ]  # fmt: skip


def test_80_columns_are_enough() -> None:
    lines = drawn(HUNG, 80)
    assert max(map(len, lines)) <= 80
    assert "all_reduce #812" in lines[1]
    assert "train.py:61" in lines[1]


def test_nobody_is_marked_while_the_job_makes_progress() -> None:
    """One rank computes while three wait: that is every step of a healthy job."""
    healthy = tuple(
        RankStatus(rank=rank, host="a", pid=rank, state="x", idle_seconds=0.1, waits_for_peers=rank != 2)
        for rank in range(4)
    )
    assert ranks_to_look_at(healthy) == frozenset()


def test_a_stopped_rank_is_marked_at_once() -> None:
    stopped = RankStatus(rank=1, host="a", pid=1, state="stopped", idle_seconds=0.1)
    assert ranks_to_look_at((waiting(0), stopped)) == {1}


def test_the_latest_rank_comes_first_where_lateness_sorts() -> None:
    late = RankStatus(rank=3, host="a", pid=3, state="x", late_seconds=0.2)
    assert [one.rank for one in in_order((*HUNG[:2], late), "late ms")] == [3, 0, 1]

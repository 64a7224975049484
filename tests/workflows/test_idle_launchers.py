"""Launchers without ranks: one is shown, and the others are counted."""

from __future__ import annotations

from ddpdoctor.host.launchers import LauncherProcess
from ddpdoctor.workflows.idle_launchers import without_ranks


def details(count: int) -> tuple[str, ...]:
    launchers = [LauncherProcess(pid=pid, name="srun", command=f"srun job{pid}") for pid in range(1, count + 1)]
    return tuple(without_ranks(launchers).details)


def test_of_several_launchers_one_is_shown_and_the_others_counted() -> None:
    assert details(1) == ("srun job1",)
    assert details(2) == ("srun job2", "1 more launcher runs here: srun (process 1)")
    first = ", ".join(f"srun (process {pid})" for pid in range(1, 5))
    assert details(9) == ("srun job9", f"8 more launchers run here: {first}, and 4 more")

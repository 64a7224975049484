"""The ranks of a running job that have ended: their launcher goes on without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

from ddpdoctor.evidence.launch import Launch
from ddpdoctor.host import processes
from ddpdoctor.model import absent_ranks

MOST_RANKS_OF_A_HOST = 1024
"""More of them than a host can have are a variable that is not true."""


def ended_under_torchrun(pids: Iterable[int]) -> dict[int, int | None]:
    """As `ended_under`, of the job of which `pids` are processes; none where torchrun did not start all its ranks here."""
    launches = {pid: launch for pid in pids if (launch := _launch(processes.environ(pid))) is not None}
    sizes = {one.world_size if one.local_world_size == one.world_size else None for one in launches.values()}
    size = sizes.pop() if len(sizes) == 1 else None
    parents = processes.parents()
    oldest = {launches[pid].rank: pid for pid in sorted(launches, key=_age, reverse=True)}
    launchers = Counter(_launcher_of(pid, launches[pid], parents) for pid in oldest.values())
    # a process that outlived its rank has another parent
    most = [launcher for launcher, ranks in launchers.items() if ranks == max(launchers.values())]
    return ended_under(most[0], size) if size is not None and len(most) == 1 else {}


def ended_under(launcher: int, size: int, numbered: Mapping[int, int] | None = None) -> dict[int, int | None]:
    """By rank that has ended, its exit code, -N for signal N, None where it is not known; in order of rank.

    A launcher that has asked for the exit code of a rank goes on only after a 0, and until then the rank is a zombie. A rank that
    any process below the launcher still bears, such as a shell around the program, has not ended. `numbered` tells the ranks of
    processes that bear no variable with it. Empty where a process may be a rank and does not tell which.
    """
    children = [pid for pid, parent in processes.parents().items() if parent == launcher]
    zombies = [pid for pid in children if not processes.is_alive(pid)]
    running = dict(numbered or {})
    for pid in {*children} - {*zombies} - {*running}:
        environ = processes.environ(pid)
        if environ is None:
            return {}
        if not numbered and (launch := _launch(environ)) is not None:
            running[pid] = launch.rank
    if not running or size > MOST_RANKS_OF_A_HOST:
        return {}
    absent = [*chain(*absent_ranks(size, running.values()))]
    codes = [processes.exit_code(pid) for pid in zombies]
    if all(code == 0 for code in codes):
        return dict.fromkeys(absent, 0)
    if len(zombies) != len(absent):
        return dict.fromkeys(absent)
    oldest_first = sorted(zip(zombies, codes, strict=True), key=lambda one: _age(one[0]))
    ranks = {pid: rank for (pid, _), rank in zip(oldest_first, absent, strict=True)} | running
    in_order = sorted(ranks, key=_age)  # a launcher starts its ranks in order
    if len({*codes}) > 1 and [ranks[pid] for pid in in_order] != sorted(ranks.values()):
        return dict.fromkeys(absent)
    return {ranks[pid]: code for pid, code in oldest_first}


def _launch(environ: Mapping[str, str] | None) -> Launch | None:
    return Launch.from_environ(environ) if environ and "TORCHELASTIC_RUN_ID" in environ else None


def _launcher_of(pid: int, launch: Launch, parents: Mapping[int, int]) -> int:
    """The first process above that does not bear the rank; 0 where there is none."""
    above, seen = parents.get(pid, 0), {pid}
    while above and above not in seen:
        theirs = _launch(processes.environ(above))
        if theirs is None or (theirs.rank, theirs.run_id) != (launch.rank, launch.run_id):
            return above
        seen.add(above)
        above = parents.get(above, 0)
    return 0


def _age(pid: int) -> tuple[float, int]:
    return processes.started_at(pid) or 0.0, pid

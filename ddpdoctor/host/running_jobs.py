"""The jobs that run on this host: their ranks, found by the environment that a launcher gave them and by who started whom."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpdoctor.agent import DIRECTORY
from ddpdoctor.evidence.launch import Joining, Launch
from ddpdoctor.host import processes
from ddpdoctor.host.ended_ranks import ended_under_torchrun
from ddpdoctor.host.forked_ranks import talking
from ddpdoctor.host.owned_files import user_of
from ddpdoctor.host.script_ranks import script_jobs
from ddpdoctor.launch.process_files import maps_of
from ddpdoctor.model import group_ranks
from ddpdoctor.ranks.agent_files import RankProcess, find_ranks
from ddpdoctor.ranks.call_ring_reader import OtherVersionError
from ddpdoctor.ranks.target import Target

_SPAWNED = re.compile(r"from multiprocessing\.spawn import spawn_main")
_OF_TORCHRUN = ("TORCHELASTIC_RUN_ID", "LOCAL_WORLD_SIZE")
_PYTHON = re.compile(r"(^|/)(python|pypy)[\d.]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """One job's ranks on this host."""

    name: str
    """What tells it from other jobs: its rendezvous, or its launcher."""
    world_size: int
    """The number of its ranks."""
    targets: tuple[Target, ...]
    """Its ranks here."""
    command: str
    """The command line of a rank."""
    environ: Mapping[str, str]
    """The variables of a rank."""
    guessed: bool = False
    """Whether the ranks are numbered by their age, as `mp.spawn` and forks leave no mark."""
    spawned_by: int | None = None
    """The process that started its ranks by `mp.spawn`, where one did, and no agent tells their numbers."""
    unread_agent: str = ""
    """Why the files of the agents in its ranks cannot be read, where they cannot."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of its ranks."""
        return tuple(target.pid for target in self.targets)

    @property
    def summary(self) -> str:
        """`ranks 0-3 of 4, python train.py`, for a list of jobs."""
        return f"{group_ranks([target.rank for target in self.targets])} of {self.world_size}, {self.command[:100]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProcesses:
    """What looking through /proc gave."""

    jobs: tuple[RunningJob, ...]
    """Jobs of launchers, then those whose script started their ranks itself."""
    forbidden: tuple[int, ...]
    """The Python processes of other users, which may be ranks and may not be looked into."""


def find_jobs() -> FoundProcesses:
    """Look through /proc once."""
    environs: dict[int, dict[str, str]] = {}
    forbidden: list[int] = []
    parents = processes.parents()
    for pid in parents:
        environ = processes.environ(pid)
        if environ is not None:
            environs[pid] = environ
        elif _runs_python(pid):
            forbidden.append(pid)
    launched = _launched(environs, parents)
    scripts = [*_script_jobs(environs, parents)]
    known = {*launched, *(pid for job in scripts for pid in job.pids)}
    jobs = [*_launched_jobs(launched, environs), *scripts, *_spawned_jobs(parents, environs, known)]
    return FoundProcesses(jobs=tuple(jobs), forbidden=tuple(forbidden))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedProcess:
    """A rank's process as its launcher started it, joined or not."""

    pid: int
    """The outermost Python with this rank; loader workers inherit its variables."""
    rank: int
    """The rank that the launcher gave it."""
    world_size: int
    """The world size that the launcher gave it."""
    joining: Joining
    """What its launcher said of the rendezvous; it does not tell whether the process has joined."""


def launched_for(directory: Path) -> tuple[LaunchedProcess, ...]:
    """The running ranks of the job whose agents write to `directory`, in order of rank."""
    environs = _environs_for(directory)
    parents = processes.parents()
    launched = [
        LaunchedProcess(
            pid=pid,
            rank=launch.rank,
            world_size=launch.world_size,
            joining=_joining(_outermost(pid, launch, parents)),
        )
        for pid, launch in _launched(environs, parents).items()
    ]
    started = [
        LaunchedProcess(pid=pid, rank=rank, world_size=job.world_size, joining=_joining(environs[pid]))
        for job in script_jobs(environs, parents)
        for rank, pid in job.ranks.items()
    ]
    return tuple(sorted((*launched, *started), key=lambda process: process.rank))


def ended_for(directory: Path) -> dict[int, int | None]:
    """By rank of this job that has ended while its launcher goes on, the exit code, None where it is not known."""
    return ended_under_torchrun(_environs_for(directory))


def _environs_for(directory: Path) -> dict[int, Mapping[str, str]]:
    """The variables of each process of the job whose agents write to `directory`."""
    found = {pid: processes.environ(pid) for pid in processes.all_pids()}
    return {pid: environ for pid, environ in found.items() if environ and environ.get(DIRECTORY) == str(directory)}


def joinings_of(pids: Iterable[int]) -> dict[int, Joining]:
    """What a launcher said of the rendezvous to each of these processes that it started; they may have joined since."""
    parents = processes.parents()
    launches = {pid: Launch.from_environ(processes.environ(pid) or {}) for pid in pids}
    joinings = {
        pid: replace(_joining(_outermost(pid, launch, parents)), called=True)
        for pid, launch in launches.items()
        if launch is not None
    }
    return {
        pid: replace(joining, started=None) if _is_of_a_rank(pid, parents) else joining
        for pid, joining in joinings.items()
    }


def _joining(environ: Mapping[str, str]) -> Joining:
    """What a launcher said of the rendezvous to a process that was started with `environ`."""
    host, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    return Joining(
        called=False,
        given=f"{host}:{port}" if host and port else None,
        launchers_store=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        started=_started(environ),
    )


def _started(environ: Mapping[str, str]) -> int | None:
    """How many ranks the launcher started, one for each WORLD_SIZE that it set; None where nobody knows that it did.

    A shell that sets RANK and WORLD_SIZE may count nodes, whose programs start a rank for each device.
    """
    launch = Launch.from_environ(environ)
    if launch is None or not (launch.tasks == launch.world_size or any(name in environ for name in _OF_TORCHRUN)):
        return None
    return launch.world_size


def _is_of_a_rank(pid: int, parents: Mapping[int, int]) -> bool:
    """Whether multiprocessing started this process: it inherits the variables of the process that a launcher started."""
    command = processes.command(pid)
    return bool(_SPAWNED.search(command)) or command == processes.command(parents.get(pid, 0))


def _outermost(pid: int, launch: Launch, parents: Mapping[int, int]) -> Mapping[str, str]:
    """The variables of the outermost process of this rank: a shell between launcher and Python may have overwritten some."""
    environ = processes.environ(pid) or {}
    for above in _ancestors(pid, parents):
        theirs = processes.environ(above) or {}
        if (theirs.get("RANK"), theirs.get("TORCHELASTIC_RUN_ID")) != (str(launch.rank), launch.run_id):
            return environ
        environ = theirs
    return environ


def jobs_of(jobs: Iterable[RunningJob], pid: int) -> list[RunningJob]:
    """The jobs of which `pid` is a rank, a launcher, or a process below a rank."""
    parents = processes.parents()

    def belongs(job: RunningJob) -> bool:
        above = {ancestor for rank in job.pids for ancestor in _ancestors(rank, parents)}
        return pid in job.pids or pid in above or bool({*_ancestors(pid, parents)} & {*job.pids})

    return [job for job in jobs if belongs(job)]


def _launched(environs: Mapping[int, Mapping[str, str]], parents: Mapping[int, int]) -> dict[int, Launch]:
    """The process of each rank that a launcher marked: the outermost Python with this rank; workers inherit the mark."""
    marked = {
        pid: launch
        for pid, environ in environs.items()
        if (launch := Launch.from_environ(environ)) is not None and _is_python(pid)
    }
    ranks = {}
    for pid, launch in marked.items():
        above = [marked[ancestor] for ancestor in _ancestors(pid, parents) if ancestor in marked]
        if not any((other.rank, other.launcher) == (launch.rank, launch.launcher) for other in above):
            ranks[pid] = launch
    starts = {ancestor for pid in ranks for ancestor in _ancestors(pid, parents)}
    return {pid: launch for pid, launch in ranks.items() if pid not in starts}  # torchrun under srun is no rank


def _launched_jobs(launched: Mapping[int, Launch], environs: Mapping[int, Mapping[str, str]]) -> Iterator[RunningJob]:
    by_job: dict[tuple[str | None, str | None, int | None, int, int | None], list[int]] = {}
    for pid, launch in launched.items():
        key = (launch.run_id, launch.master_addr, launch.master_port, launch.world_size, user_of(pid))
        by_job.setdefault(key, []).append(pid)
    for (run_id, addr, port, world_size, user), pids in by_job.items():
        found, unread = _agents((environs[pid].get(DIRECTORY, "") for pid in pids), user)
        agents = {agent.rank: agent for agent in found}
        targets = sorted(
            (
                Target(
                    rank=launched[pid].rank,
                    pid=pid,
                    agent=agent if (agent := agents.get(launched[pid].rank)) and agent.pid == pid else None,
                )
                for pid in pids
            ),
            key=lambda target: target.rank,
        )
        yield RunningJob(
            name=f"{run_id or 'job'} at {addr}:{port}",
            world_size=world_size,
            targets=tuple(targets),
            command=processes.command(targets[0].pid),
            environ=environs[targets[0].pid],
            unread_agent=unread,
        )


def _script_jobs(environs: Mapping[int, Mapping[str, str]], parents: Mapping[int, int]) -> Iterator[RunningJob]:
    for job in script_jobs(environs, parents):
        if not all(_has_torch(pid) for pid in job.ranks.values()):
            continue
        environ = environs[next(pid for pid in job.ranks.values() if pid != job.parent)]
        found, unread = _agents([environ.get(DIRECTORY, "")], user_of(job.parent))
        agents = {agent.pid: agent for agent in found}
        yield RunningJob(
            name=f"started by process {job.parent}",
            world_size=job.world_size,
            targets=tuple(Target(rank=rank, pid=pid, agent=agents.get(pid)) for rank, pid in sorted(job.ranks.items())),
            command=processes.command(job.parent),
            environ=environ,
            unread_agent=unread,
        )


def _spawned_jobs(
    parents: Mapping[int, int], environs: Mapping[int, Mapping[str, str]], known: set[int]
) -> Iterator[RunningJob]:
    """`mp.spawn`, and forks, have no variable of their own; they are siblings that one Python started, and two or more."""
    spawned: dict[int, list[int]] = {}
    forked: dict[int, list[int]] = {}
    commands = {pid: processes.command(pid) for pid in environs}
    for pid, command in commands.items():
        started = spawned if _SPAWNED.search(command) else forked if command == commands.get(parents[pid]) else None
        if started is None or not command or {pid, *_ancestors(pid, parents)} & known:
            continue
        if _has_torch(pid):
            started.setdefault(parents[pid], []).append(pid)
    for parent in _with_loader_workers(spawned):
        del spawned[parent]
    for parent, pids in spawned.items():
        oldest_first = sorted(pids, key=lambda pid: (processes.started_at(pid) or 0, pid))
        yield from _job_of_siblings(parent, oldest_first, environs, "spawned")
    for parent, pids in forked.items():
        if len(pids) > 1:
            yield from _job_of_siblings(parent, talking(pids, parent), environs, "forked")


def _with_loader_workers(spawned: Mapping[int, Sequence[int]]) -> set[int]:
    """Those of these parents that are ranks: they have joined with the siblings that one Python spawned as it did them.

    In a spawned process multiprocessing spawns too, so that the workers of its data loaders look like ranks.
    """
    started_by = {pid: parent for parent, pids in spawned.items() for pid in pids}
    grandparents = {started_by[parent] for parent in spawned if parent in started_by}
    ranks = {pid for parent in grandparents for pid in talking(spawned[parent], parent)}
    return ranks.intersection(spawned)


def _job_of_siblings(
    parent: int, pids: Sequence[int], environs: Mapping[int, Mapping[str, str]], how: str
) -> Iterator[RunningJob]:
    """The job of which `pids` are the ranks, numbered as their agents say, else in this order; none of fewer than two."""
    if len(pids) < 2:
        return
    found, unread = _agents([environs[pids[0]].get(DIRECTORY, "")], user_of(pids[0]))
    agents = {agent.pid: agent for agent in found}
    yield RunningJob(
        name=f"{how} by process {parent}",
        world_size=len(pids),
        targets=tuple(
            Target(rank=agents[pid].rank if pid in agents else place, pid=pid, agent=agents.get(pid))
            for place, pid in enumerate(pids)
        ),
        command=processes.command(parent),
        environ=environs[pids[0]],
        guessed=not agents,
        spawned_by=parent if how == "spawned" and not agents else None,
        unread_agent=unread,
    )


def _agents(directories: Iterable[str], user: int | None = None) -> tuple[list[RankProcess], str]:
    """The ranks with an agent that writes to one of `directories` as `user`, and why the files of some cannot be read."""
    found: list[RankProcess] = []
    unread = ""
    for directory in sorted({*directories} - {""}):
        try:
            found += find_ranks(Path(directory), user)
        except OtherVersionError as other:  # noqa: PERF203 - one directory a job
            unread = f"{other.message}: {other.hint}"
    return found, unread


def _is_python(pid: int) -> bool:
    return _runs_python(pid) or (bool(processes.command(pid)) and _has_torch(pid))


def _runs_python(pid: int) -> bool:
    words = processes.command(pid).split()
    return bool(words) and bool(_PYTHON.search(words[0]))


def _has_torch(pid: int) -> bool:
    return "/libtorch" in maps_of(pid)


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    seen = {pid}
    while (pid := parents.get(pid, 0)) and pid not in seen:
        seen.add(pid)
        yield pid

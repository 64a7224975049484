"""What launchers, schedulers, shells and the kernel write about the ends of processes: one event for each thing they say."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnded:
    """A launcher names the rank that ended."""

    rank: int
    """The global rank."""
    code: int
    """Its exit code, or -N for signal N."""
    launcher: str
    """Who says so, such as `mpirun`."""
    pid: int | None = None
    """Its process id on its host; None where the line does not give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksEnded:
    """A launcher names many ranks at once: ranges that nobody should spell out without a limit."""

    ranks: tuple[range, ...]
    """Inclusive of both ends of what Slurm writes as `0,2-5`."""
    code: int
    """The exit code of them all, or -N for signal N."""
    launcher: str
    """Who says so, such as `Slurm`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRankEnded:
    """A launcher names the local rank that ended: the rank, where the job has one node."""

    local_rank: int
    """Its number on its host."""
    code: int
    """Its exit code, or -N for signal N."""
    launcher: str
    """Who says so, such as `torchrun`."""
    pid: int | None = None
    """Its process id on its host; None where the line does not give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SomebodyEnded:
    """A process of the job ended, and nothing shows which."""

    code: int
    """The exit code, or -N for signal N."""
    launcher: str | None = None
    """Who says so; None for a shell or a container runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The launcher ends this process because of another one."""

    pid: int
    """The process that the launcher ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """The kernel, a scheduler or a container runtime killed processes for memory."""

    pids: tuple[int, ...] = ()
    """The processes that were killed; empty where the line names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedFromOutside:
    """A scheduler, a person or a closed terminal ended the job."""

    signal: int | None = None
    """The signal that the launcher received; None where the line does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralNodes:
    """The job has several nodes, so that a local rank is no rank."""


Event: TypeAlias = (
    RankEnded | RanksEnded | LocalRankEnded | SomebodyEnded | Closing | OutOfMemory | EndedFromOutside | SeveralNodes
)

CTRL_C = "^C"  # as a terminal shows it before what the program writes then
SIGNALS_FROM, LARGEST_SIGNAL, LARGEST_CODE = 128, 64, 255

_CLOSING = re.compile(
    r"Sending process (\d+) c(?:losing signal SIG|[losing al]{0,15}$)|Unable to shutdown process (\d+) via|"
    r"Killing subprocess (\d+)"
)
_TORCHRUN_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\)(?: local_rank: (\d+) \(pid: (\d+)\))?")
_SPAWNED_ENDED = re.compile(r"process (\d+) terminated with (?:signal (SIG[A-Z]+)\b|exit code (\d+)\W*$)")
_LIGHTNING = re.compile(r"^(?:\[rank: (\d+)\] )?Child process with PID (\d+) terminated with code (-?\d+)")
_DEEPSPEED = re.compile(r" exits with return code = (-?\d+)$")
_DIED_WITH = re.compile(r"^(?:subprocess\.)?CalledProcessError: .*died with <Signals\.(SIG[A-Z]+): \d+>")
_NON_ZERO = re.compile(r"^(?:subprocess\.)?CalledProcessError: .*returned non-zero exit status (\d+)")
_MPI_SIGNAL = re.compile(
    r"(?:mpirun|prterun|mpiexec) noticed that process rank (\d{1,9}) with PID (\d{1,9}) .{0,200}exited on signal (\d+)"
)
_MPI_RANK = re.compile(
    r"^\s*Process name: \[\[?\d+,\d+\],(?P<rank>\d{1,9})\]|"
    # which mpirun breaks where the name of the node is long
    r"^(?:mpirun|prterun|mpiexec) noticed that process rank (?P<noticed>\d{1,9}) with PID \d{1,9} .{0,200}exited(?: on)?$|"
    # the rank within another communicator than that of all is no rank of the job
    r"^\s*MPI_ABORT was invoked on rank (?P<aborted>\d{1,9}) in communicator (?:MPI_COMM_WORLD|MPI COMMUNICATOR \d+ DUP FROM 0)\b"
)
_MPI_CODE = re.compile(
    r"^\s*(?:Exit code:|with errorcode|Errorcode:)\s+(?P<code>-?\d{1,9})|^(?:on )?signal (?P<signal>\d{1,3})\b"
)
_MPICH_ABORT = re.compile(
    r"^Abort\((-?\d{1,9})\) on node \d+ \(rank (\d{1,9}) in comm 0\): application called MPI_Abort"
)
_HYDRA_RANK = re.compile(r"^=\s+RANK (\d+) PID \d+ RUNNING AT ")
_HYDRA_END = re.compile(r"^=\s+(?:KILLED BY SIGNAL: (\d{1,3})|EXIT (?:CODE|STATUS): (\d{1,9}))")
_SRUN = re.compile(r"^srun: error: \S+: tasks? ([\d,\-]+): (?:Exited with exit code (\d+)|(\w.*))")
_COMPOSER = re.compile(
    r"\bRank (\d{1,9}) crashed with exit code (-?\d{1,9})\.|^ERROR:composer\.\S+:Global rank (\d{1,9}) \(PID \d{1,9}\) exited "
    r"with code (-?\d{1,9})"
)
_HOROVOD = re.compile(r"^Process (\d+) exit with status code (\d+)")
_SHELL_KILLED = re.compile(
    r"(?:line \d+: +|^\[\d+\]\+? +|^)(?:\d+ )?(Killed|Terminated|Segmentation fault|Aborted|Bus error)(?: +\(core "
    r"dumped\))?(?:  +\S| ?$)|"
    r"^\[\d+\] +(?:[-+] +)?\d+ (killed|terminated|segmentation fault|abort|bus error)(?: +\(core dumped\))?  +\S"  # of zsh
)
# what the handler of a signal writes in the process that dies of it: of UCX, of Open MPI, of MPICH, of Python
_HANDLER = re.compile(
    r"\bCaught signal (\d{1,2}) \(|^\[[\w.:-]{1,80}\] Signal: [\w ]{1,40} \((\d{1,2})\)|"
    r"TERMINATED WITH THE EXIT STRING: [\w ]{1,40} \(signal (\d{1,2})\)|"
    r"^Fatal Python error: (Segmentation fault|Bus error|Aborted)|\*\*\* (SIG(?:SEGV|ABRT|BUS|FPE|ILL)) .{0,80}?received "
    r"(?:at time=|by PID)|"  # absl and glog; with SIGTERM Ray ends healthy workers
    r": (Assertion failure) at psm3/"  # of the library of Omni-Path and Intel's Ethernet, which aborts
)
_CONTAINER_CODE = re.compile(r"(?:terminated with|exited with code|Exit Code:|exit code) +(137|139|134|143)\b")
# of an operator, and of `kubectl describe`
_POD_CODE = re.compile(
    r"\b(?:[Cc]ontainer|[Pp]od)\b.{0,200}\b(?:exited with code|exitCode:) ?([1-9]\d{0,2})\b|^\s*Exit Code: +([1-9]\d{0,2})$"
)
_NODES = re.compile(
    r"(?:--nnodes[= ]|\bnnodes[\"']?[:=] *[\"']?|max_nodes +: |num_nodes[=:] ?)(?:\d+:)?([2-9]|\d\d+)\b"
)
_HOSTS_OF_DEEPSPEED = re.compile(r"WORLD INFO DICT: \{'[^']+': \[[\d, ]*\], ")
_CANCELLED = re.compile(
    r"(?:slurmstepd|srun)\b.{0,400}(?:CANCELLED|TIME LIMIT|PREEMPT)|Received \S+ death signal|"
    r"PBS: job killed|TERM_(?:RUNLIMIT|OWNER|PREEMPT|ADMIN)\b|reaching LSF run time limit",
    re.IGNORECASE,
)
_GOT_SIGNAL = re.compile(
    r"Received (?:Signals\.)?(\w+) death signal|SignalException: Process \d+ got signal: (\d+)|"
    r"Main process received (SIG(?:INT|TERM)), exiting"  # of DeepSpeed
)
_OOM = re.compile(
    r"\boom[-_ ]kill(?:ed|er)?\b(?![\w./]| 0\b)|"
    r"Out of memory: Killed|Memory cgroup out of memory|OUT_OF_MEMORY|: Out Of Memory|OOMKilled|"
    r"killed due to (?:memory pressure|the node running low on memory)|Task was killed due to the node running low|"
    r"TERM_MEMLIMIT\b"
)
_KILLED_PID = re.compile(r"[Kk]illed process (\d+)")
_WORDS_OF_SIGNALS = {
    "Killed": -9, "Out Of Memory": -9, "Terminated": -15, "Segmentation fault": -11, "Aborted": -6, "Bus error": -7,
    "killed": -9, "terminated": -15, "segmentation fault": -11, "abort": -6, "bus error": -7,
    "Assertion failure": -6,
}  # fmt: skip


def events_of(text: str) -> Iterator[Event]:
    """What a launcher or scheduler says in this line; nothing where it is not one of their lines."""
    if found := _CLOSING.search(text):
        yield Closing(pid=int(found[1] or found[2] or found[3]))
    if _OOM.search(text):
        yield OutOfMemory(pids=tuple(int(pid) for pid in _KILLED_PID.findall(text)))
    if _NODES.search(text) or _HOSTS_OF_DEEPSPEED.search(text):
        yield SeveralNodes()
    if found := _GOT_SIGNAL.search(text):
        yield EndedFromOutside(signal=_signal(found[1] or found[2] or found[3]))
    elif text.startswith(CTRL_C):
        yield EndedFromOutside(signal=signal.SIGINT)
    elif _CANCELLED.search(text):
        yield EndedFromOutside()
    yield from _ends(text)


def _ends(text: str) -> Iterator[Event]:
    if (found := _TORCHRUN_FAILED.search(text)) and found[2] is None:  # the line is cut
        yield SomebodyEnded(code=int(found[1]), launcher="torchrun")
    elif found:
        yield LocalRankEnded(local_rank=int(found[2]), code=int(found[1]), pid=int(found[3]), launcher="torchrun")
    elif found := _SPAWNED_ENDED.search(text):
        code = -(_signal(found[2]) or 0) if found[2] else int(found[3])
        yield RankEnded(rank=int(found[1]), code=code or 1, launcher="torch.multiprocessing")
    elif (found := _LIGHTNING.search(text)) and found[1] is None:
        yield SomebodyEnded(code=int(found[3]), launcher="Lightning")
    elif found:
        yield LocalRankEnded(local_rank=int(found[1]), code=int(found[3]), pid=int(found[2]), launcher="Lightning")
    elif found := _DEEPSPEED.search(text):  # the command that it quotes is the last one started, whichever ended
        yield SomebodyEnded(code=int(found[1]), launcher="DeepSpeed")
    elif (found := _DIED_WITH.search(text)) and _of_python(text):
        yield SomebodyEnded(code=-(_signal(found[1]) or 0), launcher="torch.distributed.launch")
    elif (found := _NON_ZERO.search(text)) and _of_python(text):
        yield SomebodyEnded(code=int(found[1]), launcher="torch.distributed.launch")
    elif found := _MPI_SIGNAL.search(text):
        yield RankEnded(rank=int(found[1]), code=-int(found[3]), pid=int(found[2]), launcher="mpirun")
    elif found := _SRUN.match(text):
        code = int(found[2]) if found[2] else _WORDS_OF_SIGNALS.get(found[3].split(" (")[0], 1)
        yield RanksEnded(ranks=tuple(_tasks(found[1])), code=code, launcher="Slurm")
    elif found := _HOROVOD.match(text):
        yield RankEnded(rank=int(found[1]), code=_of_a_shell(int(found[2])), launcher="Horovod")
    elif found := _COMPOSER.search(text):
        yield RankEnded(rank=int(found[1] or found[3]), code=int(found[2] or found[4]), launcher="composer")
    elif found := _MPICH_ABORT.match(text):
        yield RankEnded(rank=int(found[2]), code=int(found[1]) & LARGEST_CODE, launcher="mpirun")
    elif found := _HYDRA_END.match(text):
        yield SomebodyEnded(code=-int(found[1]) if found[1] else _of_a_shell(int(found[2])), launcher="mpirun")
    elif found := _SHELL_KILLED.search(text):
        yield SomebodyEnded(code=_WORDS_OF_SIGNALS[found[1] or found[2]])
    elif found := _CONTAINER_CODE.search(text) or _POD_CODE.search(text):
        yield SomebodyEnded(code=_of_a_shell(int(next(filter(None, found.groups())))))


def crash_of(text: str) -> int | None:
    """The signal of which the process that writes this line dies, as the handler of the signal says."""
    found = _HANDLER.search(text)
    if found is None:
        return None
    words = next(filter(None, found.groups()))
    number = _signal(words)
    return number if number is not None else -_WORDS_OF_SIGNALS[words]


def rank_of_mpi(text: str) -> int | None:
    """The rank in mpirun's `Process name: [[54321,1],3]`, before the line with its exit code."""
    if found := _MPI_RANK.match(text.rstrip()):
        return int(found["rank"] or found["noticed"] or found["aborted"])
    found = _HYDRA_RANK.match(text)
    return int(found[1]) if found is not None else None


def code_of_mpi(text: str) -> int | None:
    """The code in mpirun's `Exit code:    1`, or -N in `signal N`."""
    found = _MPI_CODE.match(text)
    if found is None:
        return None
    return -int(found["signal"]) if found["signal"] else _of_a_shell(int(found["code"]) & LARGEST_CODE)


def _of_a_shell(code: int) -> int:
    """The exit code, or -N where it is 128 + N, as shells and containers tell of signal N."""
    return SIGNALS_FROM - code if SIGNALS_FROM < code <= SIGNALS_FROM + LARGEST_SIGNAL else code


def _of_python(text: str) -> bool:
    """Whether the command is a rank's, and no tool that a rank started itself."""
    return re.search(r"Command '\['[^']*(?:python|accelerate|torchrun|deepspeed)[^']*'", text) is not None


def _signal(text: str) -> int | None:
    if text.isdecimal():
        return int(text)
    number = signal.Signals.__members__.get(text)
    return int(number) if number is not None else None


def _tasks(text: str) -> Iterator[range]:
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdecimal():
            yield range(int(low), int(high if high.isdecimal() else low) + 1)

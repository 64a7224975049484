"""Run one of our programs on every rank: start the ranks, or be one of those that a launcher started.

The program's rank 0 reports through a file of JSON lines whose path stands in `DDPDOCTOR_RESULTS`. Only rank 0 may use
it: ranks that a launcher started have the variable on rank 0 alone, and gather to it over the process group.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.attendance import Attendance, WaitingProcess
from ddpdoctor.launch.guarded_process import ProgramEnd, run
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.launch.rendezvous import meeting_point, rank_variables, waiting_of

RESULTS = "DDPDOCTOR_RESULTS"
RANKS_WITHOUT_GPUS = 2
MAX_LOCAL_RANKS = 256  # more processes of 200 MB and a thread pool each are a mistake, not a test


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRun:
    """How the ranks of one of our programs ended."""

    ended: ProgramEnd
    """The end of the launcher, or of the one rank that this process is."""
    results: tuple[dict[str, Any], ...]
    """What rank 0 reported, in order; empty on other ranks."""
    speaks: bool
    """Whether this process reports for the job: False on a joined rank other than 0."""
    lacking: str = ""
    """Which ranks of a launch did not come; empty where all did or nothing shows it."""


def our_file(folder: str, name: str) -> Path:
    """The path of a program that ships with ddpdoctor: inside the installed package first, then in the checkout."""
    package = Path(__file__).parents[1]
    for place in (package / folder / name, package.parent / folder / name):
        if place.exists():
            return place
    raise FileNotFoundError(f"{folder}/{name} is missing from this installation of ddpdoctor")


def require_torch() -> None:
    """Refuse to start what needs PyTorch where there is none.

    Raises:
        UsageError: torch is not installed in this Python.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            f"this needs PyTorch, which is not installed for {sys.executable}",
            hint="run it with the Python of your training environment, or `pip install 'ddpdoctor[torch]'`",
        )


def default_nproc() -> int:
    """How many ranks to start where nobody says: one per visible GPU of this host, or 2 where it has none."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = len([path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()])
    if chosen is not None:
        gpus = min(gpus, len([name for name in chosen.split(",") if name.strip() not in {"", "-1"}]))
    return gpus or RANKS_WITHOUT_GPUS


def current_launch() -> Launch | None:
    """The launch that this process is a rank of, or None where no launcher started it."""
    return Launch.from_environ(os.environ)


def require_rank_in_world(launch: Launch) -> None:
    """Refuse a rank that no other rank expects: nobody has to come to know that it cannot join.

    Raises:
        UsageError: the rank is not below the world size, or is negative.
    """
    if not 0 <= launch.rank < launch.world_size:
        raise UsageError(
            f"RANK={launch.rank} is not in 0..{launch.world_size - 1} (WORLD_SIZE={launch.world_size}), so this rank cannot join",
            hint="`ddpdoctor explain DDP208` names what sets them",
        )


def run_ranks(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    nproc: int | None,
    deadline_seconds: float,
    silence_seconds: float = float("inf"),
    env: Mapping[str, str] | None = None,
    on_result: Callable[[dict[str, Any]], None] | None = None,
    on_wait: Callable[[WaitingProcess], None] | None = None,
) -> RankRun:
    """Run `program` on `nproc` local ranks, or, where `nproc` is None and a launcher started us, as this one rank.

    `on_result` sees each of rank 0's results as it comes; after `silence_seconds` without one the ranks are ended. Under a
    launcher `on_wait` is called once a second until all ranks have met.

    Raises:
        UsageError: `nproc` is out of range, or given where a launcher already decided it, or needed and absent.
    """
    launch = current_launch()
    speaks = launch is None or launch.rank == 0
    with private_directory() as folder:
        place = str(folder.path)
        command, added = ranks_command(program, arguments, nproc=nproc, logs=place)
        added |= {**caches_in(place), **(env or {})}
        results = _Results(folder.path / "results.jsonl", on_result)
        if speaks:
            added[RESULTS] = str(results.path)
        attendance = None
        if launch is not None and on_wait is not None:
            waiting = waiting_of(launch, meeting_point(os.environ, launch))
            attendance = Attendance(folder.path / "attendance.json", waiting, on_wait)
            added |= attendance.environment

        def poll() -> bool:
            results.read()
            if attendance is not None:
                attendance.poll()
            return speaks and results.seconds_silent > silence_seconds

        ended = run(command, deadline_seconds=deadline_seconds, env=added, folder=folder, poll=poll)
        lacking = attendance.lacking if attendance is not None else ""
        return RankRun(ended=ended, results=tuple(results.seen), speaks=speaks, lacking=lacking)


def ranks_command(
    program: Path, arguments: Sequence[str], *, nproc: int | None, logs: str
) -> tuple[list[str], dict[str, str]]:
    """The command that runs `program` on `nproc` local ranks, or as the one rank that a launcher made of us; and its variables.

    `logs` is a directory of the caller's, who removes it: torchrun makes one for every run, and would leave it in /tmp.

    Raises:
        UsageError: there is no torch; `nproc` is out of range, needed and absent, or given where a launcher already decided it.
        UndecidedError: the launcher does not say where its ranks could meet.
    """
    launch = current_launch()
    require_torch()
    if launch is not None:
        if nproc is not None:
            raise UsageError(
                f"--nproc {nproc} was given, but {launch.launcher} already started this as rank {launch.rank} of "
                f"{launch.world_size}",
                hint="omit --nproc under a launcher",
            )
        require_rank_in_world(launch)
        return [sys.executable, str(program), *arguments], rank_variables(os.environ, launch)
    nproc = checked_nproc(nproc)
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // nproc)))
    return [*local_launcher(nproc, logs), str(program), *arguments], {"OMP_NUM_THREADS": threads}


def local_launcher(nproc: int, logs: str) -> list[str]:
    """The command that starts a program on `nproc` ranks of this host: torchrun, which writes into the directory `logs`.

    The `--` at its end keeps torchrun from taking the program's options for abbreviations of its own.
    """
    started_by = [sys.executable, str(our_file("probes", "start_ranks.py"))]
    return [*started_by, "--standalone", "--nproc-per-node", str(nproc), "--log-dir", logs, "--"]


def caches_in(folder: str) -> dict[str, str]:
    """The variables by which torch keeps what it compiles in `folder`, which is removed, and not in TMPDIR; none that is set."""
    wanted = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
    return {name: value for name, value in wanted.items() if name not in os.environ}


def checked_nproc(nproc: int | None) -> int:
    """`nproc` if it is a number of ranks that can be started here.

    Raises:
        UsageError: it is absent, below 1 or above 256.
    """
    if nproc is None:
        raise UsageError(
            "no launcher started this process, and no --nproc says how many ranks to start",
            hint="add `--nproc 2`, or start it with torchrun, srun or mpirun; a script that starts its ranks itself: "
            "`verify-sync --own-ranks`",
        )
    if not 1 <= nproc <= MAX_LOCAL_RANKS:
        cores = len(os.sched_getaffinity(0))
        raise UsageError(
            f"--nproc {nproc} is not a number of ranks between 1 and {MAX_LOCAL_RANKS}",
            hint=f"this machine has {cores} usable cores: try `--nproc {min(cores, 8)}`",
        )
    return nproc


class _Results:
    """Follows the file that rank 0 writes; an unfinished last line waits for its end."""

    def __init__(self, path: Path, on_result: Callable[[dict[str, Any]], None] | None) -> None:
        self.path = path
        self.seen: list[dict[str, Any]] = []
        self._on_result = on_result
        self._offset = 0
        self._last = time.monotonic()

    @property
    def seconds_silent(self) -> float:
        return time.monotonic() - self._last

    def read(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            fresh = file.read()
        complete, _, _ = fresh.rpartition(b"\n")
        if not complete:
            return
        self._offset += len(complete) + 1
        self._last = time.monotonic()
        for line in complete.splitlines():
            result = json.loads(line)
            self.seen.append(result)
            if self._on_result is not None:
                self._on_result(result)

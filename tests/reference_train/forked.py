"""Ranks forked from a process that has imported torch already: a job starts in half a second, so that a test can run many."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.free_port import free_port

ROOT = Path(__file__).parents[2]
# What takes seconds to import; none of it starts a thread, which a fork would not survive.
SLOW_IMPORTS = ["torch.nn.parallel", "torch._dynamo", "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook"]


@dataclass(frozen=True, slots=True)
class LittleSpace:
    """No file of this process may become larger than `limit` bytes."""

    limit: int

    def prepare(self) -> None:
        """Let it be so for this process."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, self.limit))


@dataclass(frozen=True, slots=True)
class Death:
    """SIGKILL inside the checkpoint that follows `after` others: in the midst of its bytes, before its rename, or after."""

    place: str
    after: int
    share: float = 0.5  # of its bytes that are written

    PLACES = ("content", "before the rename", "after the rename")

    def prepare(self) -> None:
        """Let this process die so."""
        flushed = 0
        replace = Path.replace

        def fsync(descriptor: int) -> None:
            nonlocal flushed
            flushed += 1
            if flushed > self.after and self.place == "content":
                os.ftruncate(descriptor, int(self.share * os.fstat(descriptor).st_size))
                die()
            if flushed > self.after and self.place == "before the rename":
                die()

        def rename(path: Path, target: Path) -> Path:
            moved = replace(path, target)
            if flushed > self.after:
                die()
            return moved

        os.fsync, Path.replace = fsync, rename  # type: ignore[assignment,method-assign]


def die() -> None:
    """End this process as SIGKILL does."""
    os.kill(os.getpid(), signal.SIGKILL)


def fork_ranks(
    program: str, *arguments: str, ranks: int, fate: Death | LittleSpace | None = None, said: Path | None = None
) -> list[BaseProcess]:
    """The ranks of `program`, a module of reference_train, in order.

    Rank 0 may be told where to die, or to have little space. What rank N says goes to the file N in the directory `said`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(SLOW_IMPORTS)
    port = free_port()
    jobs = [
        context.Process(target=run_rank, args=(program, arguments, rank, ranks, port, None if rank else fate, said))
        for rank in range(ranks)
    ]
    for job in jobs:
        job.start()
    return jobs


def exit_code(rank: BaseProcess, *, seconds: float = 120.0) -> int | None:
    """The rank's exit code, or None where it has not ended in time."""
    rank.join(seconds)
    return rank.exitcode


def kill(ranks: Sequence[BaseProcess]) -> None:
    """End all ranks with SIGKILL, and wait until they are gone."""
    for rank in ranks:
        rank.kill()
    for rank in ranks:
        rank.join()


def run_rank(
    program: str,
    arguments: tuple[str, ...],
    rank: int,
    ranks: int,
    port: int,
    fate: Death | LittleSpace | None,
    said: Path | None,
) -> None:
    """Be a rank."""
    if said is not None:
        with (said / str(rank)).open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    sys.path.insert(0, str(ROOT / "reference_train"))
    import torch

    torch.set_num_threads(1)
    if fate is not None:
        fate.prepare()
    importlib.import_module(program).main(arguments)

"""Start the ranks of a program directly, without a launcher in between that tests would have to look through."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.free_port import free_port

ROOT = Path(__file__).parents[2]


def start_ranks(
    program: str, *arguments: str, ranks: int, prepare: Callable[[], None] | None = None
) -> list[subprocess.Popen[str]]:
    """The ranks of reference_train/PROGRAM, in order; `prepare` runs in each before it begins."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, str(ROOT / "reference_train" / program), *arguments],
            env={
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,
        )
        for rank in range(ranks)
    ]


def ended(ranks: list[subprocess.Popen[str]], *, seconds: float) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each rank; ranks that do not end in time are killed."""
    try:
        return [(rank.wait(timeout=seconds), *rank.communicate(timeout=seconds)) for rank in ranks]
    finally:
        kill(ranks)


def kill(ranks: list[subprocess.Popen[str]]) -> None:
    """End all ranks with SIGKILL, and wait until they are gone."""
    for rank in ranks:
        rank.kill()
    for rank in ranks:
        rank.wait()
        for stream in (rank.stdout, rank.stderr):
            if stream is not None:
                stream.close()

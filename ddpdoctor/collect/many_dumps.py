"""Hundreds of recorder dumps, read by as many processes as there are processors."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ddpdoctor.collect.dumps import Dump, read_dump
from ddpdoctor.engine import all_checks
from ddpdoctor.errors import UndecidedError

WORTH_IT = 64  # files from which starting processes costs less than it saves
AT_ONCE = 16  # files for one process at a time: what ranks share is then sent back once
MAX_PROCESSES = 16
PR_SET_PDEATHSIG = 1


def read_dumps(files: Sequence[Path]) -> Iterator[Dump | UndecidedError]:
    """Each file's dump, or what is wrong with it, in order."""
    processes = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    if len(files) < WORTH_IT or processes < 2:
        yield from map(_read, files)
        return
    chunks = [files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE)]
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(processes, mp_context=fork, initializer=_end_with_parent) as pool:
        reading = pool.map(_read_all, chunks)
        all_checks()  # imported while the processes read, it costs no time
        for found in reading:
            yield from found


def _read_all(files: Sequence[Path]) -> list[Dump | UndecidedError]:
    return [_read(file) for file in files]


def _read(file: Path) -> Dump | UndecidedError:
    try:
        return read_dump(file)
    except UndecidedError as error:
        return UndecidedError(error.message)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

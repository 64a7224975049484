"""What attacks of several kinds write: texts, bytes, pipes, links, dumps, checkpoints, cases, notebooks."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.__main__ import MARK

DATA = Path(__file__).parents[1] / "data"


GLOO = DATA / "recorder" / "gloo"


RAISED = (DATA / "logs" / "raised.txt").read_bytes()


ESCAPE = "\x1b]0;x\x07\x1b[2J\r\x9b31m\u202e"


FORGED = "no findings (30 checks ran, 0 skipped)"


TRAIN = "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\n"


SHELL = "#!/bin/bash\n"


LOG = ("diagnose", "job.log")


LINT = ("lint", ".")


DUMPS = ("diagnose", ".")


COMPARE = ("verify-sync", "a.pt", "b.pt")


RANK_1_RAISED = "DDP401"


def text(**files: str) -> Callable[[Path], None]:
    """Writes these texts; `__` in a name stands for a dot."""

    def make(folder: Path) -> None:
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content.encode("utf-8", "surrogateescape"))

    return make


def data(**files: bytes) -> Callable[[Path], None]:
    """Writes these bytes; `__` in a name stands for a dot."""

    def make(folder: Path) -> None:
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)

    return make


def both(*makers: Callable[[Path], None]) -> Callable[[Path], None]:
    """Does all of it."""

    def make(folder: Path) -> None:
        for each in makers:
            each(folder)

    return make


def fifo(name: str) -> Callable[[Path], None]:
    """A named pipe that nobody writes to."""
    return lambda folder: os.mkfifo(folder / name)


def link(name: str, target: str) -> Callable[[Path], None]:
    """A symbolic link."""
    return lambda folder: (folder / name).symlink_to(target)


def hard_link(name: str, target: str) -> Callable[[Path], None]:
    """A second name of the same file."""
    return lambda folder: (folder / name).hardlink_to(folder / target)


def dumps(folder: Path) -> None:
    """The dumps of a healthy-looking pair of ranks, one of which has fallen behind."""
    for dump in sorted(GLOO.iterdir()):
        (folder / dump.name).write_bytes(dump.read_bytes())


def dump_with(**fields: object) -> Callable[[Path], None]:
    """Dumps of two ranks whose calls have these fields."""

    def make(folder: Path) -> None:
        for rank in range(2):
            document = pickle.loads((GLOO / f"rank_{rank}").read_bytes())
            document["entries"] = [{**entry, **fields} for entry in document["entries"]]
            (folder / f"rank_{rank}").write_bytes(pickle.dumps(document))

    return make


def checkpoint(content: object, name: str = "a.pt") -> Callable[[Path], None]:
    """Saved by torch."""

    def make(folder: Path) -> None:
        import torch

        torch.save(content, folder / name)

    return make


def dcp(metadata: bytes) -> Callable[[Path], None]:
    """Two directories of a distributed checkpoint with these contents."""

    def make(folder: Path) -> None:
        for name in ("a", "b"):
            (folder / name).mkdir()
            (folder / name / ".metadata").write_bytes(metadata)
            (folder / name / "__0_0.distcp").write_bytes(b"")

    return make


def case_with(change: Callable[[dict[str, object]], object] | bytes) -> Callable[[Path], None]:
    """A saved case that somebody has changed."""

    def make(folder: Path) -> None:
        from ddpdoctor import case
        from ddpdoctor.workflows.diagnose import gather

        file = case.save(gather([GLOO]), folder / "job.json")
        if isinstance(change, bytes):
            file.write_bytes(change)
            return
        file.write_text(json.dumps(change(json.loads(file.read_text()))))

    return make


def notebook(*cells: str) -> str:
    """A notebook with these cells."""
    return json.dumps(
        {
            "cells": [{"cell_type": "code", "source": cell, "metadata": {}} for cell in cells],
            "nbformat": 4,
            "metadata": {},
        }
    )


class Runs:
    """Makes a directory when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (MARK,)


RUNS = pickle.dumps(Runs(), protocol=2)

"""How much memory ddpdoctor takes for each byte of a file that it reads, honest or hostile.

    python -m tests.bench memory

Each kind of input is made in two sizes, and read by a command in a process of its own. What counts is how the peak of its memory
grows from the smaller to the larger one, in bytes for each byte of the file: without the memory of the modules. The limit is the
one of the fuzzer, for the larger one. `lint` passes over a program of more than 1 MiB and a launch script of more than 128 KiB.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.__main__ import MEMORY_A_BYTE, MOST_MEMORY

MODULES_BYTES = 40 << 20  # which the fuzzer does not count
SIZES = (1 << 20, 4 << 20)
SIZES_OF = {"train.py": (1 << 17, 1 << 19), "job.sh": (1 << 15, 120_000)}
TRAIN = """
def step_{n}(model, batch):
    loss = model(batch).mean()
    loss.backward()
    return loss.item()

"""
ENTRY_BYTES = 150  # of the pickle, about: most of an entry is shared with the one before
ENTRY = {
    "pg_id": 0, "process_group": ("0", "default_pg"), "profiling_name": "nccl:all_reduce", "input_sizes": [[1024]],
    "output_sizes": [[1024]], "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "completed",
    "is_p2p": False, "retired": True, "timeout_ms": 600000, "duration_ms": 1.0,
}  # fmt: skip


def repeated(text: str, size: int) -> bytes:
    """The text with a number of its own, again and again."""
    count = size // len(text) + 1
    return "".join(text.replace("{n}", str(number)) for number in range(count)).encode()[:size]


def log(size: int) -> bytes:
    """The log of a job that ran for long and then failed."""
    end = "[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n"
    return repeated("[rank0]: step {n} loss 0.25 throughput 1000 samples/s\n", size) + end.encode()


def failing_log(size: int) -> bytes:
    """A log of nothing but failures."""
    return repeated(
        '[rank{n}]: Traceback (most recent call last):\n[rank{n}]:   File "t.py", line 3\n[rank{n}]: ValueError: {n}\n',
        size,
    )


def dump(size: int) -> bytes:
    """The dump of a recorder with as many calls as fit."""
    entries = [
        dict(ENTRY) | {"record_id": n, "collective_seq_id": n, "p2p_seq_id": 0, "op_id": n, "time_created_ns": n,
                 "time_discovered_started_ns": n, "time_discovered_completed_ns": n,
                 "frames": [{"name": f"f{n}", "filename": "t.py", "line": n}]}
        for n in range(size // ENTRY_BYTES)
    ]  # fmt: skip
    status = {
        "0": {"last_enqueued_collective": len(entries), "last_started_collective": 0, "last_completed_collective": 0}
    }
    return pickle.dumps({"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
                         "pg_status": status, "entries": entries})  # fmt: skip


def empty_containers(size: int) -> bytes:
    """A pickle of empty dicts and lists, two bytes each."""
    return b"\x80\x04(" + b"}]" * (size // 2) + b"l."


def program(size: int) -> bytes:
    """A training program of many functions."""
    return b"import torch\n" + repeated(TRAIN, size)


def brackets(size: int) -> bytes:
    """A program of one list of numbers."""
    return b"x = [" + b"0," * (size // 2) + b"]\n"


def script(size: int) -> bytes:
    """A launch script of many commands."""
    return b"#!/bin/bash\n" + repeated("torchrun --nproc-per-node 8 train_{n}.py\n", size)


KINDS: dict[str, tuple[str, Callable[[int], bytes], tuple[str, ...]]] = {
    "log": ("job.log", log, ("diagnose",)),
    "log of failures": ("job.log", failing_log, ("diagnose",)),
    "recorder dump": ("rank_0", dump, ("diagnose",)),
    "dump of empty containers": ("rank_0", empty_containers, ("diagnose",)),
    "program": ("train.py", program, ("lint",)),
    "program of one list": ("train.py", brackets, ("lint",)),
    "launch script": ("job.sh", script, ("lint",)),
}


def peak(name: str, content: bytes, command: tuple[str, ...]) -> tuple[int, int]:
    """The most memory of a process that reads the file, in bytes, and its exit code."""
    with tempfile.TemporaryDirectory(prefix="ddpdoctor-bench-") as folder:
        Path(folder, name).write_bytes(content)
        process = subprocess.Popen(
            [sys.executable, "-m", "ddpdoctor", *command, name],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_maxrss << 10, process.returncode


def main() -> int:
    """Measure and print; 1 where a kind is over the limit."""
    bad = False
    for kind, (name, make, command) in KINDS.items():
        contents = [make(size) for size in SIZES_OF.get(name, SIZES)]
        (small, _), (large, code) = (peak(name, content, command) for content in contents)
        multiple = (large - small) / (len(contents[1]) - len(contents[0]))
        bad = bad or large - MODULES_BYTES > MOST_MEMORY + MEMORY_A_BYTE * len(contents[1])
        sizes = [
            f"{bytes_ >> 20} MB for {len(content) >> 10} KB"
            for bytes_, content in zip((small, large), contents, strict=True)
        ]
        print(
            f"memory: {kind}: {', '.join(sizes)}: {multiple:.1f} bytes a byte; exit code {code}",
            flush=True,
        )
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())

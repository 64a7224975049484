"""How much memory ddpdoctor takes for each byte of a file that it reads, honest or hostile.

    python -m tests.bench memory           # KINDS="case,log" for some kinds

Each kind of input is made in two sizes, and read by a command in a process of its own. What counts is how the peak of its memory
grows from the smaller to the larger one, in bytes for each byte of the file: without the memory of the modules. The limit is the
one of the fuzzer, for the larger one. `lint` passes over a program of more than 1 MiB and a launch script of more than 128 KiB.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ddpdoctor import case
from ddpdoctor.transport.bundle import Bundle, ProcessIdentity
from ddpdoctor.transport.facts import parts_of
from tests.bench.large_case import job
from tests.fuzz.__main__ import MEMORY_A_BYTE, MOST_MEMORY

MODULES_BYTES = 40 << 20  # which the fuzzer does not count
CASE_BYTES_A_RANK = 34_000  # of `large_case`, about
# the peak of a process is at least that of the one which started it, and this one has torch
MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(used.ru_maxrss, os.waitstatus_to_exitcode(status))
os._exit(0)
"""
READ = "import sys; from tests.fuzz.readers import read; sys.exit(read(sys.argv[1:]))"
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


def saved_case(size: int) -> bytes:
    """A case whose ranks each have a recorder."""
    with tempfile.TemporaryDirectory() as folder:
        return case.save(job(size // CASE_BYTES_A_RANK), Path(folder, "job.json")).read_bytes()


def case_of_empty_ranks(size: int) -> bytes:
    """A case of as many ranks as fit, of which nothing is known."""
    ranks = b",".join(b'{"rank":%d,"host":"","facts":{}}' % rank for rank in range(size // 40))
    return b'{"schema":"%s","ranks":[%s]}' % (case.SCHEMA.encode(), ranks)


def case_of_empty_containers(size: int) -> bytes:
    """A case whose only fact has a list of empty objects."""
    fact = b'{"places":[' + b"{}," * (size // 3) + b"{}]}"
    return b'{"schema":"%s","job":{"SourceCode":%s}}' % (case.SCHEMA.encode(), fact)


def checkpoint(size: int) -> bytes:
    """A checkpoint of tensors of 1,024 numbers."""
    return _saved({f"layer.{number}.weight": torch.ones(1024) for number in range(size // 4300)})


def checkpoint_of_empty_tensors(size: int) -> bytes:
    """A checkpoint of as many tensors without elements as fit."""
    return _saved({str(number): torch.zeros(0) for number in range(size // 360)})


def zip_bomb(size: int) -> bytes:
    """A checkpoint that is a thousand times as large once it is decompressed."""
    plain = io.BytesIO(_saved({"w": torch.zeros(size * 250)}))
    packed = io.BytesIO()
    with zipfile.ZipFile(plain) as whole, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in whole.infolist():
            archive.writestr(part.filename, whole.read(part))
    return packed.getvalue()


def _saved(state: dict[str, torch.Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def rank_message(size: int) -> bytes:
    """What a rank says to rank 0: facts that fill a message."""
    bundle = Bundle()
    who = ProcessIdentity(rank=0, world_size=2, host="a", pid=1, clock="c")
    facts = job(1).ranks[0].facts
    bundle.add(who, {**parts_of(facts, (), ()), "log": [os.urandom(size)]})
    return bundle.encode()


def message_of_empty_parts(size: int) -> bytes:
    """A message of as many ranks without facts as fit."""
    bundle = Bundle()
    for rank in range(size // 60):
        bundle.add(ProcessIdentity(rank=rank, world_size=1 << 20, host="a", pid=1, clock="c"), {})
    return bundle.encode()


def ras_answer(size: int) -> bytes:
    """What a listener at NCCL's port says: a table of processes without an end."""
    return repeated("Errors\n======\n\nINCOMPLETE\n  Process 4101 on node 10.0.0.2 managing GPU {n}\n\n", size)


@dataclass(frozen=True, slots=True)
class Kind:
    """An input that a command reads."""

    make: Callable[[int], bytes]
    """Its content, for about so many bytes."""
    names: tuple[str, ...]
    """The files that have this content."""
    command: tuple[str, ...]
    """What reads them: `@NAME` is a reader of `tests/fuzz/readers.py`."""
    sizes: tuple[int, int] = (1 << 20, 4 << 20)
    """The smaller and the larger size, in bytes."""


_PROGRAM, _CHECKPOINTS = (1 << 17, 1 << 19), ("a.pt", "b.pt")
KINDS = {
    "log": Kind(log, ("job.log",), ("diagnose",)),
    "log of failures": Kind(failing_log, ("job.log",), ("diagnose",)),
    "recorder dump": Kind(dump, ("rank_0",), ("diagnose",)),
    "dump of empty containers": Kind(empty_containers, ("rank_0",), ("diagnose",)),
    "case": Kind(saved_case, ("case.json",), ("diagnose",)),
    "case of empty ranks": Kind(case_of_empty_ranks, ("case.json",), ("diagnose",)),
    "case of empty containers": Kind(case_of_empty_containers, ("case.json",), ("diagnose",)),
    "checkpoint": Kind(checkpoint, _CHECKPOINTS, ("verify-sync",)),
    "checkpoint of empty tensors": Kind(checkpoint_of_empty_tensors, _CHECKPOINTS, ("verify-sync",)),
    "checkpoint that is a zip bomb": Kind(zip_bomb, _CHECKPOINTS, ("verify-sync",), (1 << 17, 1 << 19)),
    "message of a rank": Kind(rank_message, ("message",), ("@rank",)),
    "message of empty ranks": Kind(message_of_empty_parts, ("message",), ("@rank",)),
    "answer of a listener": Kind(ras_answer, ("message",), ("@listener",)),
    "program": Kind(program, ("train.py",), ("lint",), _PROGRAM),
    "program of one list": Kind(brackets, ("train.py",), ("lint",), _PROGRAM),
    "launch script": Kind(script, ("job.sh",), ("lint",), (1 << 15, 120_000)),
}


def peak(kind: Kind, content: bytes) -> tuple[int, int]:
    """The most memory of a process that reads the files, in bytes, and its exit code."""
    with tempfile.TemporaryDirectory(prefix="ddpdoctor-bench-") as parent:
        folder = Path(parent, "b")  # as the readers of the fuzzer expect it
        folder.mkdir()
        for name in kind.names:
            Path(folder, name).write_bytes(content)
        names = () if kind.command[0].startswith("@") else kind.names
        program = ("-c", READ) if kind.command[0].startswith("@") else ("-m", "ddpdoctor")
        measured = subprocess.run(
            [sys.executable, "-c", MEASURE, sys.executable, *program, *kind.command, *names],
            cwd=folder, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, check=True,
        )  # fmt: skip
        kilobytes, code = measured.stdout.split()
        return int(kilobytes) << 10, int(code)


def main() -> int:
    """Measure and print; 1 where a kind is over the limit, 2 where KINDS names one that there is not."""
    chosen = [name.strip() for name in os.environ.get("KINDS", ",".join(KINDS)).split(",")]
    unknown = [name for name in chosen if name not in KINDS]
    if unknown:
        print(f"memory: KINDS: there is no {unknown[0]!r}; choose from: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    return max([measured(name, KINDS[name]) for name in chosen])


def measured(name: str, kind: Kind) -> int:
    """Print a line for one kind; 1 where it is over the limit."""
    contents = [kind.make(size) for size in kind.sizes]
    (small, _), (large, code) = (peak(kind, content) for content in contents)
    multiple = (large - small) / (len(contents[1]) - len(contents[0])) / len(kind.names)
    sizes = [
        f"{bytes_ >> 20} MB for {len(content) * len(kind.names) >> 10} KB"
        for bytes_, content in zip((small, large), contents, strict=True)
    ]
    print(f"memory: {name}: {', '.join(sizes)}: {multiple:.1f} bytes a byte; exit code {code}", flush=True)
    return int(large - MODULES_BYTES > MOST_MEMORY + MEMORY_A_BYTE * len(contents[1]))


if __name__ == "__main__":
    sys.exit(main())

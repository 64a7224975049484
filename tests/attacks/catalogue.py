"""Known attacks on somebody who points ddpdoctor at a stranger's files: the input, and what it must not achieve.

`ATTACKS` lists those that are a folder and a command line. Each is tried against all laws of `tests/fuzz/__main__.py` (an exit
code of the table, no traceback, nothing run, nothing unescaped, time and memory bounded by the size of the input), and against
what is said here.
"""

# ruff: noqa: E501 - an input is a line
from __future__ import annotations

import json
import os
import pickle
import random
import socket
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.__main__ import MARK
from tests.secret_shapes import SHAPES

DATA = Path(__file__).parents[1] / "data"
GLOO = DATA / "recorder" / "gloo"
RAISED = (DATA / "logs" / "raised.txt").read_bytes()
ESCAPE = "\x1b]0;x\x07\x1b[2J\r\x9b31m\u202e"
FORGED = "no findings (30 checks ran, 0 skipped)"
DEEP = 100_000
BOMB_DOUBLINGS = 60
CODE = "foreign code"
FILES = "another user's files"
NUMBERS = "numbers from outside"
MEMORY = "small files, large memory"
TIME = "regular expressions and other time"
TERMINAL = "the terminal"
SECRETS = "secrets"
PARTIAL = "partial failure"
CRASH = "exit code 4"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack: what it writes into an empty folder, and the command line of its victim there."""

    kind: str
    """The class of the attack."""
    law: str
    """What it must not achieve, in a few words."""
    arguments: tuple[str, ...]
    """The command line."""
    make: Callable[[Path], None]
    """Writes the input."""
    shows: str = ""
    """What the victim must read: the verdict in spite of it, or the reason of the refusal."""
    never: tuple[str, ...] = ()
    """What must stand neither in the output nor in a file that the command wrote."""
    codes: tuple[int, ...] = (0, 1, 2, 3)
    """The exit codes that are right."""
    leaves: tuple[str, ...] = ()
    """Files that the command writes."""
    untouched: tuple[str, ...] = field(default=())
    """Files whose content must be what it was."""


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


class Runs:
    """Makes a directory when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (MARK,)


RUNS = pickle.dumps(Runs(), protocol=2)
GETATTR = (
    b"\x80\x02cbuiltins\ngetattr\ncos\nsystem\nX\x08\x00\x00\x00__call__\x86R" + b"X\x0b\x00\x00\x00mkdir PWNED\x85R."
)
INSTANCE = b"\x80\x02(X\x0b\x00\x00\x00mkdir PWNEDios\nsystem\n."
EXTENSION = b"\x80\x02\x82\x01."
PERSISTENT = b"\x80\x02Pmkdir PWNED\n."
STACK_GLOBAL = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0bmkdir PWNED\x85R."


def dumps(folder: Path) -> None:
    """The dumps of a healthy-looking pair of ranks, one of which has fallen behind."""
    for dump in sorted(GLOO.iterdir()):
        (folder / dump.name).write_bytes(dump.read_bytes())


def fifo(name: str) -> Callable[[Path], None]:
    """A named pipe that nobody writes to."""
    return lambda folder: os.mkfifo(folder / name)


def link(name: str, target: str) -> Callable[[Path], None]:
    """A symbolic link."""
    return lambda folder: (folder / name).symlink_to(target)


def listener(folder: Path) -> None:
    """A Unix socket in the place of a log."""
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(folder)  # its name has at most 108 bytes
        try:
            one.bind("job.log")
        finally:
            os.chdir(here)


def checkpoint(content: object, name: str = "a.pt") -> Callable[[Path], None]:
    """Saved by torch."""

    def make(folder: Path) -> None:
        import torch

        torch.save(content, folder / name)

    return make


def tensors(**named: object) -> Callable[[Path], None]:
    """The same checkpoint twice, `a.pt` and `b.pt`, with these tensors beside one that is honest."""

    def make(folder: Path) -> None:
        import torch

        for name in ("a.pt", "b.pt"):
            torch.save({"w": torch.ones(2), **named}, folder / name)

    return make


def dcp(metadata: bytes) -> Callable[[Path], None]:
    """Two directories of a distributed checkpoint with these contents."""

    def make(folder: Path) -> None:
        for name in ("a", "b"):
            (folder / name).mkdir()
            (folder / name / ".metadata").write_bytes(metadata)
            (folder / name / "__0_0.distcp").write_bytes(b"")

    return make


def archive_bomb(folder: Path) -> None:
    """Forty kilobytes that become forty megabytes, in a checkpoint's clothes."""
    for name in ("a.pt", "b.pt"):
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
            archive.writestr("archive/data/0", bytes(40 << 20))


def archive_of_many(folder: Path) -> None:
    """An archive of twenty thousand empty files."""
    for name in ("a.pt", "b.pt"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            for number in range(20_000):
                archive.writestr(f"archive/data/{number}", b"")


def safetensors(header: bytes, size: int | None = None) -> Callable[[Path], None]:
    """Two such files, with a header of this length."""
    content = struct.pack("<Q", len(header) if size is None else size) + header + bytes(8)
    return data(a__safetensors=content, b__safetensors=content)


def names_of_tensors(folder: Path) -> None:
    """Tensors whose names act on a terminal, and differ."""
    import torch

    for name, value in (("a.pt", 1.0), ("b.pt", 2.0)):
        torch.save({f"w{ESCAPE}\n{FORGED}\n::error::x": torch.full((2,), value)}, folder / name)


def shared(levels: int) -> object:
    """Ten times ten times ... the same list."""
    tree: object = ["x"]
    for _ in range(levels):
        tree = [tree] * 10
    return tree


def dump_with(**fields: object) -> Callable[[Path], None]:
    """Dumps of two ranks whose calls have these fields."""

    def make(folder: Path) -> None:
        for rank in range(2):
            document = pickle.loads((GLOO / f"rank_{rank}").read_bytes())
            document["entries"] = [{**entry, **fields} for entry in document["entries"]]
            (folder / f"rank_{rank}").write_bytes(pickle.dumps(document))

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


def hosts_that_escape(document: dict[str, object]) -> object:
    """Every host has a name that acts on a terminal."""
    ranks = document["ranks"]
    assert isinstance(ranks, list)
    return {**document, "ranks": [{**rank, "host": f"a{ESCAPE}\n{FORGED}"} for rank in ranks]}


def notebook(*cells: str) -> str:
    """A notebook with these cells."""
    return json.dumps(
        {
            "cells": [{"cell_type": "code", "source": cell, "metadata": {}} for cell in cells],
            "nbformat": 4,
            "metadata": {},
        }
    )


def laughs() -> str:
    """Nine kinds of nine of the kind before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(["kind: Job", *lines, "spec: *a11"]) + "\n"


TRAIN = "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\n"
SHELL = "#!/bin/bash\n"
LEAKS = tuple(secret for _, secret in SHAPES)
LOG = ("diagnose", "job.log")
LINT = ("lint", ".")
DUMPS = ("diagnose", ".")
COMPARE = ("verify-sync", "a.pt", "b.pt")
RANK_1_RAISED = "DDP401"

ATTACKS: dict[str, Attack] = {
    # -- foreign code
    **{
        f"dump with {name}": Attack(
            kind=CODE,
            law="nothing is executed",
            arguments=("diagnose", "rank_0"),
            make=data(rank_0=content),
            codes=(3,),
        )
        for name, content in (
            ("os.mkdir", RUNS),
            ("getattr and os.system", GETATTR),
            ("an INST opcode", INSTANCE),
            ("a registered extension", EXTENSION),
            ("a persistent id", PERSISTENT),
            ("STACK_GLOBAL", STACK_GLOBAL),
        )
    },
    "checkpoint with os.mkdir": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=COMPARE,
        make=both(checkpoint({"x": Runs()}), checkpoint({"x": Runs()}, "b.pt")),
        codes=(2, 3),
        shows="posix.mkdir",
    ),
    "metadata with os.mkdir": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=("verify-sync", "a", "b"),
        make=dcp(RUNS),
        codes=(2, 3),
        shows="posix.mkdir",
    ),
    "YAML tag that calls": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LINT,
        make=text(job__yaml=f"kind: Job\nspec: !!python/object/apply:os.mkdir [{MARK}]\n"),
    ),
    "shell substitution": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LINT,
        make=text(
            job__sh=f"{SHELL}X=$(mkdir {MARK})\n`mkdir {MARK}`\ntorchrun --nproc-per-node ${{X:-$(mkdir {MARK})}} t.py\n"
        ),
    ),
    "notebook magic": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LINT,
        make=text(t__ipynb=notebook(f"!mkdir {MARK}", f"%%bash\nmkdir {MARK}", f"import os; os.mkdir('{MARK}')")),
    ),
    "project file with a command": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=("watch", "--", "false"),
        make=text(pyproject__toml=f"[tool.ddpdoctor.watch]\non-verdict = 'mkdir {MARK}'\n"),
        codes=(2,),
        shows="project file cannot",
    ),
    "project file that writes": Attack(
        kind=CODE,
        law="no file is written",
        arguments=LOG,
        make=both(data(job__log=RAISED), text(pyproject__toml=f"[tool.ddpdoctor.diagnose]\noutput = '{MARK}'\n")),
        codes=(2,),
    ),
    "modules in the working directory": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LOG,
        make=both(
            data(job__log=RAISED),
            text(
                **{
                    f"{name}__py": f"import os; os.mkdir({MARK!r})"
                    for name in ("json", "torch", "ddpdoctor", "sitecustomize", "yaml")
                }
            ),
        ),
        codes=(1,),
    ),
    # -- another user's files
    "pipe as a log": Attack(kind=FILES, law="no waiting", arguments=LOG, make=fifo("job.log")),
    "pipe among logs": Attack(
        kind=FILES,
        law="the rest is judged",
        arguments=DUMPS,
        make=both(fifo("a.log"), data(job__log=RAISED)),
        codes=(1,),
        shows=RANK_1_RAISED,
    ),
    "pipe among programs": Attack(
        kind=FILES,
        law="no waiting",
        arguments=LINT,
        make=both(fifo("a.py"), fifo("a.sh"), fifo("a.yaml"), fifo("a.ipynb"), text(t__py=TRAIN)),
    ),
    "pipe as a baseline": Attack(
        kind=FILES,
        law="no waiting",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=both(fifo("b.json"), text(t__py=TRAIN)),
        codes=(2,),
    ),
    "pipe as a project file": Attack(
        kind=FILES, law="no waiting", arguments=LINT, make=both(fifo("pyproject.toml"), text(t__py=TRAIN))
    ),
    "pipe as a checkpoint": Attack(
        kind=FILES, law="no waiting", arguments=COMPARE, make=both(fifo("a.pt"), fifo("b.pt")), codes=(2, 3)
    ),
    "pipe as metadata": Attack(
        kind=FILES,
        law="no waiting",
        arguments=("verify-sync", "a", "b"),
        make=lambda folder: [(folder / n).mkdir() or os.mkfifo(folder / n / ".metadata") for n in "ab"] and None,
        codes=(2, 3),
    ),
    "pipe as a case": Attack(kind=FILES, law="no waiting", arguments=("diagnose", "job.json"), make=fifo("job.json")),
    "pipe as a comparison": Attack(
        kind=FILES,
        law="no waiting",
        arguments=("allreduce-bench", "--compare", "b.json", "--nproc", "1"),
        make=fifo("b.json"),
        codes=(2,),
    ),
    "endless device as a log": Attack(kind=FILES, law="bounded", arguments=LOG, make=link("job.log", "/dev/zero")),
    "endless device as a program": Attack(
        kind=FILES, law="bounded", arguments=("lint", "t.py"), make=link("t.py", "/dev/zero")
    ),
    "endless device as a project file": Attack(
        kind=FILES, law="bounded", arguments=LINT, make=both(link("pyproject.toml", "/dev/zero"), text(t__py=TRAIN))
    ),
    "endless device as a baseline": Attack(
        kind=FILES,
        law="bounded",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=both(link("b.json", "/dev/zero"), text(t__py=TRAIN)),
        codes=(2,),
    ),
    "socket as a log": Attack(kind=FILES, law="no crash", arguments=LOG, make=listener),
    "circle of links": Attack(
        kind=FILES,
        law="no crash",
        arguments=DUMPS,
        make=both(link("job.log", "job.log"), link("x", "."), data(a__log=RAISED)),
        codes=(1,),
        shows=RANK_1_RAISED,
    ),
    # -- numbers
    "tasks 0-99999999": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LOG,
        make=text(job__log="srun: error: n1: tasks 0-99999999: Exited with exit code 1\n"),
    ),
    "tasks 99999990-99999999": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LOG,
        make=text(job__log="srun: error: n1: tasks 99999990-99999999: Exited with exit code 1\n"),
        shows="not used: 10 of the ranks",
    ),
    "tasks 262140-262150": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LOG,
        make=text(job__log="srun: error: n1: tasks 262140-262150: Killed\n"),
        shows="not used: 7 of the ranks",
    ),
    "rank of nine digits": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=DUMPS,
        make=lambda folder: (folder / "rank_999999999").write_bytes((GLOO / "rank_0").read_bytes()) and None,
    ),
    "rank in a table of torchrun": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LOG,
        make=text(
            job__log="Root Cause (first observed failure):\n[0]:\n  rank      : 999999999999 (local_rank: 9)\n  exitcode  : -9 (pid: 1)\n"
        ),
    ),
    "world size in a log": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LOG,
        make=text(
            job__log="WORLD_SIZE=300000000\nRANK=0\ntorch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/300000000 clients joined.\n"
        ),
    ),
    "number of 5,000 digits": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LOG,
        make=text(job__log=f"[rank{'9' * 5000}]: ValueError: x\n{'9' * 5000}\n"),
    ),
    "nodes and tasks of a job script": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LINT,
        make=text(
            job__sh=f"{SHELL}#SBATCH --nodes=99999999999\n#SBATCH --ntasks-per-node={'9' * 5000}\nfor i in $(seq 1 99999999999); do :; done\nfor i in {{1..999999999}}; do torchrun --nproc-per-node=$((2**62)) t.py; done\n"
        ),
    ),
    "replicas of a manifest": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LINT,
        make=text(
            job__yaml=f"kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker: {{replicas: {'9' * 30}}}\n    Master: {{replicas: -1}}\n"
        ),
    ),
    "5,000 digits in a manifest": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LINT,
        make=text(
            job__yaml=f"kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker: {{replicas: {'9' * 5000}}}\n"
        ),
    ),
    "powers in a program": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LINT,
        make=text(
            t__py=TRAIN
            + "x = 9**9**9**9\ny = 'a' * 10**12\nz = [0] * 10**12\nw = 1 << 10**12\nv = f'{1:10000000000}'\nfor i in range(10**15): dist.barrier()\n"
        ),
    ),
    "5,000 digits in a project file": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml=f"[tool.ddpdoctor.lint]\nignore = [{'9' * 5000}]\n"),
        codes=(2,),
    ),
    "5,000 digits in a baseline": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=text(t__py=TRAIN, b__json=f'{{"version": {"9" * 5000}}}'),
        codes=(2,),
    ),
    "5,000 digits in a program": Attack(
        kind=NUMBERS, law="no crash", arguments=LINT, make=text(t__py=f"{TRAIN}x = {'9' * 5000}\n")
    ),
    "calls of a recorder": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=DUMPS,
        make=dump_with(collective_seq_id=2**62, record_id=10**18, input_sizes=[[2**62] * 3], timeout_ms=-(2**63)),
    ),
    # -- memory
    "shared containers in a dump": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=DUMPS,
        make=dump_with(input_sizes=shared(12), frames=shared(12), profiling_name=shared(12)),
        codes=(3,),
    ),
    "length in a pickle": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=("diagnose", "rank_0"),
        make=data(rank_0=b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x."),
        codes=(3,),
    ),
    "frame in a pickle": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=("diagnose", "rank_0"),
        make=data(rank_0=b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"N."),
        codes=(3,),
    ),
    "memo number in a pickle": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=("diagnose", "rank_0"),
        make=data(rank_0=b"\x80\x04Nr\xff\xff\xff\x7f."),
        codes=(3,),
    ),
    "billion laughs": Attack(kind=MEMORY, law="bounded", arguments=LINT, make=text(job__yaml=laughs())),
    "merge keys": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=LINT,
        make=text(
            job__yaml="kind: Job\n"
            "a0: &a0 {x: 1}\n"
            + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9))
        ),
    ),
    "doubling variables of a shell script": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=LINT,
        make=text(
            job__sh=SHELL
            + "A0=xxxxxxxx\n"
            + "".join(f"A{n}=$A{n - 1}$A{n - 1}\n" for n in range(1, BOMB_DOUBLINGS))
            + f"export MASTER_ADDR=$A{BOMB_DOUBLINGS - 1}\ntorchrun t.py\n"
        ),
    ),
    "doubling strings of a program": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=LINT,
        make=text(
            t__py=TRAIN
            + "a0 = 'x'\n"
            + "".join(f"a{n} = a{n - 1} + a{n - 1}\n" for n in range(1, BOMB_DOUBLINGS))
            + f"dist.init_process_group(a{BOMB_DOUBLINGS - 1})\n"
        ),
    ),
    "choices of a program": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=LINT,
        make=text(
            t__py=TRAIN
            + "".join(f"b{n} = 'x' if c{n} else 'y'\n" for n in range(40))
            + "dist.init_process_group(f'"
            + "".join(f"{{b{n}}}" for n in range(40))
            + "')\n"
        ),
    ),
    "zip bomb": Attack(kind=MEMORY, law="bounded", arguments=COMPARE, make=archive_bomb, codes=(2, 3)),
    "archive of many files": Attack(kind=MEMORY, law="bounded", arguments=COMPARE, make=archive_of_many, codes=(2, 3)),
    "header of a safetensors file": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=("verify-sync", "a.safetensors", "b.safetensors"),
        make=safetensors(b"{}", 2**62),
        codes=(2, 3),
    ),
    "shape in a safetensors file": Attack(
        kind=MEMORY,
        law="bounded",
        arguments=("verify-sync", "a.safetensors", "b.safetensors"),
        make=safetensors(b'{"w": {"dtype": "F32", "shape": [1099511627776], "data_offsets": [0, 4398046511104]}}'),
        codes=(2, 3),
    ),
    "deep JSON in a case": Attack(
        kind=MEMORY,
        law="no crash",
        arguments=("diagnose", "job.json"),
        make=text(job__json='{"schema": ' + "[" * DEEP),
        codes=(2, 3),
    ),
    "deep JSON in a dump": Attack(
        kind=MEMORY,
        law="no crash",
        arguments=("diagnose", "rank_0"),
        make=text(rank_0='{"entries": ' + "[" * DEEP),
        codes=(3,),
    ),
    "deep pickle": Attack(
        kind=MEMORY,
        law="no crash",
        arguments=("diagnose", "rank_0"),
        make=data(rank_0=b"\x80\x04" + b"]" * DEEP + b"a" * (DEEP - 1) + b"."),
        codes=(3,),
    ),
    # -- time
    "calls that branch": Attack(
        kind=TIME,
        law="bounded",
        arguments=LINT,
        make=text(
            t__py=TRAIN
            + "def f0(): dist.barrier()\n"
            + "".join(f"def f{n}():\n    f{n - 1}()\n    f{n - 1}()\n    f{n - 1}()\n" for n in range(1, 40))
            + "f39()\n"
        ),
    ),
    "conditions that branch": Attack(
        kind=TIME,
        law="bounded",
        arguments=LINT,
        make=text(
            t__py=TRAIN
            + "def main():\n"
            + "".join(f"    if c{n}: x = x + 1\n    else: x = x - 1\n" for n in range(200))
            + "    if x: dist.barrier()\nmain()\n"
        ),
    ),
    "classes that inherit in a circle": Attack(
        kind=TIME,
        law="bounded",
        arguments=LINT,
        make=text(t__py=TRAIN + "class A(B): pass\nclass B(A): pass\nA().x = A().x\n" + "from t import *\nimport t\n"),
    ),
    "a line of 200 KB": Attack(
        kind=TIME,
        law="bounded",
        arguments=LOG,
        make=text(job__log="[rank0]: " * 20_000 + "\n" + " " * 200_000 + "\n" + "a:" * 100_000 + "\n"),
    ),
    "brackets in a launch script": Attack(
        kind=TIME,
        law="bounded",
        arguments=LINT,
        make=text(job__sh=SHELL + "torchrun " + "$((" * 3000 + "\n" + "${" * 5000 + "\n" + "\\\n" * 20_000),
    ),
    "pasted text": Attack(
        kind=TIME, law="bounded", arguments=("explain", "pasted.log"), make=text(pasted__log="RuntimeError: " * 15_000)
    ),
    # -- the terminal
    "escapes in a log": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=LOG,
        make=text(
            job__log=f'[rank1]: Traceback (most recent call last):\n[rank1]:   File "{ESCAPE}/t.py", line 3, in {ESCAPE}\n[rank1]: ValueError: {ESCAPE}\n'
        ),
    ),
    "escapes in a file's name": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=DUMPS,
        make=lambda folder: (folder / f"a{ESCAPE}\n{FORGED}.log").write_bytes(RAISED) and None,
        codes=(1,),
    ),
    "escapes in the operation of a call": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("diagnose", ".", "-v"),
        make=dump_with(profiling_name=f"nccl:{ESCAPE}\n{FORGED}"),
    ),
    "escapes in a frame": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("diagnose", "."),
        make=dump_with(frames=[{"name": ESCAPE, "filename": f"/{ESCAPE}\n::error::x", "line": 1}]),
    ),
    "escapes in names of tensors": Attack(
        kind=TERMINAL, law="nothing unescaped", arguments=COMPARE, make=names_of_tensors
    ),
    "escapes in a case": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("diagnose", "job.json", "-v"),
        make=case_with(hosts_that_escape),
    ),
    "escapes in a key of a project file": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml='[tool.ddpdoctor.lint]\n"a\\u001b[2J\\n::error::x" = 1\n'),
        codes=(2,),
    ),
    "escapes in a program": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=LINT,
        make=text(
            t__py=f"{TRAIN}dist.init_process_group('{ESCAPE.replace(chr(13), '')}')\nif dist.get_rank() == 0:\n    dist.barrier()  # {ESCAPE.replace(chr(13), '')}\n"
        ),
    ),
    "escapes in a fix": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("lint", "--diff", "."),
        make=text(t__py=f"{TRAIN}from torch.utils.data import DataLoader\nx = '{ESCAPE.replace(chr(13), '')}'\n"),
    ),
    "an argument with escapes": Attack(
        kind=TERMINAL, law="nothing unescaped", arguments=("diagnose", f"x{ESCAPE}"), make=text(), codes=(2,)
    ),
    "a command to the CI service": Attack(
        kind=TERMINAL,
        law="no command of a stranger",
        arguments=("diagnose", "job.log", "--format", "github"),
        make=text(
            job__log="[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n::add-mask::x\n::set-output name=a::b\n"
        ),
        never=("\n::add-mask", "\n::set-output"),
    ),
    # -- secrets
    "secrets in a log": Attack(
        kind=SECRETS,
        law="no secret is written",
        arguments=("diagnose", "job.log", "--case", "case.json", "--output", "report.html", "--format", "html"),
        make=text(
            job__log="[rank1]: Traceback (most recent call last):\n"
            + "".join(f"[rank1]: ValueError: {shape}\n" for shape, _ in SHAPES)
        ),
        never=LEAKS,
        leaves=("case.json", "report.html"),
    ),
    "secrets in a launch script": Attack(
        kind=SECRETS,
        law="no secret is written",
        arguments=("lint", "job.sh", "--case", "case.json", "--output", "report.json", "--format", "json"),
        make=text(
            job__sh=SHELL
            + "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\nexport MASTER_ADDR=localhost\nsrun --nodes=2 torchrun --nnodes 2 --wandb-api-key 0123456789abcdef0123 t.py\n"
        ),
        never=("hf_abcdefghijklmnop", "0123456789abcdef0123"),
        leaves=("case.json", "report.json"),
    ),
    "a case that others could read": Attack(
        kind=SECRETS,
        law="mode 0600",
        arguments=("diagnose", "job.log", "--case", "case.json"),
        make=data(job__log=RAISED),
        codes=(1,),
        leaves=("case.json",),
    ),
    # -- partial failure
    "hostile dump beside good ones": Attack(
        kind=PARTIAL, law="the rest is judged", arguments=DUMPS, make=both(dumps, data(rank_7=RUNS)), shows="rank_7"
    ),
    "damaged dump beside good ones": Attack(
        kind=PARTIAL,
        law="the rest is judged",
        arguments=DUMPS,
        make=both(dumps, lambda folder: (folder / "rank_7").write_bytes((GLOO / "rank_0").read_bytes()[:300]) and None),
        shows="rank_7",
    ),
    "pipe beside good dumps": Attack(
        kind=PARTIAL, law="the rest is judged", arguments=DUMPS, make=both(dumps, fifo("rank_7"))
    ),
    "garbage beside a good log": Attack(
        kind=PARTIAL,
        law="the rest is judged",
        arguments=DUMPS,
        make=both(data(job__log=RAISED, a__log=random.Random(1).randbytes(5000), b__log=b"\xff\xfe\x00")),
        codes=(1,),
        shows=RANK_1_RAISED,
    ),
    "a program that does not parse": Attack(
        kind=PARTIAL,
        law="the rest is judged",
        arguments=LINT,
        make=text(a__py="def (", b__py=TRAIN + "if dist.get_rank() == 0:\n    dist.barrier()\n"),
        codes=(1,),
        shows="DDP730",
    ),
    # -- exit code 4
    "UTF-16 everywhere": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=data(
            t__py=TRAIN.encode("utf-16"),
            job__sh=SHELL.encode("utf-16"),
            job__yaml="kind: Job".encode("utf-16"),
            t__ipynb=notebook("x").encode("utf-16"),
            pyproject__toml="[tool.ddpdoctor]".encode("utf-16"),
        ),
    ),
    "surrogates in a notebook": Attack(
        kind=CRASH, law="no crash", arguments=LINT, make=text(t__ipynb=notebook("x = '\udc80'\n" + TRAIN))
    ),
    "a notebook of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            a__ipynb="[]",
            b__ipynb='{"cells": 5}',
            c__ipynb='{"cells": [5, {"cell_type": [], "source": {}}, {"cell_type": "code", "source": [1, null]}]}',
        ),
    ),
    "a manifest of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            a__yaml="kind: [1]\nspec: 5\n",
            b__yaml="kind: Job\nspec: {template: {spec: {containers: 5}}}\n",
            c__yaml="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: [1]}\n",
            d__yaml="? [a, b]\n: 1\n",
            e__yaml="kind: Job\nspec: {template: {spec: {containers: [{env: [5], args: {a: b}, command: 5}]}}}\n",
        ),
    ),
    "a manifest 5,000 deep": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            a__yaml="kind: Job\nspec: " + "[" * 5000 + "]" * 5000 + "\n",
            b__yaml="kind: Job\n" + "".join(" " * n + "a:\n" for n in range(600)),
        ),
    ),
    "an expression 5,000 deep": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            t__py=TRAIN + "x = " + "-" * 5000 + "1\n",
            u__py=TRAIN + "x = " + "(" * 90 + "1" + ")" * 90 + "\n",
            v__py=TRAIN + "x = a" + ".b" * 3000 + "\n",
            w__py=TRAIN + "x = " + "1+" * 3000 + "1\n",
        ),
    ),
    "a project file of odd types": Attack(
        kind=CRASH, law="no crash", arguments=LINT, make=text(t__py=TRAIN, pyproject__toml="tool = 5\n")
    ),
    "a project table of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml="[tool.ddpdoctor]\nlint = 5\n"),
        codes=(2,),
    ),
    "a list for a project table": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml="[[tool.ddpdoctor.lint]]\nignore = []\n"),
        codes=(2,),
    ),
    "a project file 5,000 deep": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml="[tool.ddpdoctor.lint]\nignore = " + "[" * 5000 + "]" * 5000 + "\n"),
        codes=(2,),
    ),
    "a value of another type in a project file": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LOG,
        make=both(
            data(job__log=RAISED),
            text(pyproject__toml="[tool.ddpdoctor.diagnose]\nselect = [[1], {a = 2}]\nverbose = [1]\n"),
        ),
        codes=(2,),
    ),
    "a baseline of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=text(t__py=TRAIN, b__json='{"findings": {"x": 5}, "version": []}'),
        codes=(2,),
    ),
    "a deep baseline": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=text(t__py=TRAIN, b__json="[" * DEEP),
        codes=(2,),
    ),
    "a comparison of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("allreduce-bench", "--compare", "b.json", "--nproc", "1"),
        make=text(b__json='{"schema": [], "ranks": 5}'),
        codes=(2,),
    ),
    "a directory in the place of each file": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=lambda folder: (
            [(folder / name).mkdir() for name in ("b.json", "t.py", "job.sh", "job.yaml", "pyproject.toml")] and None
        ),
        codes=(2,),
    ),
    "a directory in the place of each dump": Attack(
        kind=CRASH,
        law="no crash",
        arguments=DUMPS,
        make=both(
            lambda folder: [(folder / name).mkdir() for name in ("rank_0", "job.json", "x.log")] and None,
            data(a__log=RAISED),
        ),
        codes=(1,),
    ),
    "a report over its own input": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("diagnose", "job.log", "--output", "."),
        make=data(job__log=RAISED),
        codes=(2,),
    ),
}

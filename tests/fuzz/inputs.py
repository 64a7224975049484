"""What the fuzzer draws: files of every kind that a stranger may send, broken, bloated or forged, each with a command line."""

from __future__ import annotations

import json
import os
import pickle
import random
import string
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from ddpdoctor import case
from tests.fuzz.evidence import examples
from tests.secret_shapes import SHAPES

TESTS = Path(__file__).parents[1]
ESCAPES = (
    "\x1b[2J\x1b]0;x\x07",
    "\r",
    "\x00",
    "\u202e",
    "\x85",
    "\u2028",
    "\x9b31m",
    "::error::x",
    "no findings (30 checks ran, 0 skipped)",
)
NUMBERS = ("0", "-1", "65536", "4294967296", "99999999999999999999", "9" * 5000, "1e999", "NaN", "²", "٣", "0x10", "")
MOST_BYTES = 60_000


@dataclass(frozen=True)
class Input:
    """A command line, and the files in the directory in which it is run."""

    arguments: tuple[str, ...]
    files: Mapping[str, bytes]


class Runs:
    """Makes a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("PWNED",)


def _logs() -> list[Path]:
    return [
        path
        for top in ("data/logs", "posted_logs/collection")
        for path in sorted((TESTS / top).rglob("*"))
        if path.is_file()
    ]


def _dumps() -> list[Path]:
    return [path for path in sorted((TESTS / "data/recorder").rglob("*")) if path.is_file()]


def _scripts() -> list[Path]:
    return sorted((TESTS / "cli/twins").glob("*.py"))


def mutated(draw: random.Random, data: bytes) -> bytes:
    """`data` with parts left out, repeated, exchanged, and with numbers, escapes and garbage put in."""
    out = bytearray(data[:MOST_BYTES])
    for _ in range(draw.choice((0, 1, 1, 2, 4, 16))):
        at, length = draw.randrange(len(out) + 1), draw.choice((1, 2, 8, 64, 512))
        match draw.randrange(8):
            case 0:
                del out[at : at + length]
            case 1:
                out[at:at] = out[at : at + length] * draw.choice((1, 2, 30))
            case 2:
                out[at : at + length] = draw.randbytes(length)
            case 3:
                out[at:at] = draw.choice(ESCAPES).encode("utf-8", "surrogatepass")
            case 4:
                out[at:at] = draw.choice(NUMBERS).encode()
            case 5:
                out[at:at] = (draw.choice("([{\"' \n\t\\aA0._-:=/") * draw.choice((10, 1000, 8000))).encode()
            case 6:
                out = out[:at]
            case _:
                digits = [place for place, byte in enumerate(out) if 48 <= byte <= 57]
                if digits:
                    place = draw.choice(digits)
                    out[place : place + 1] = draw.choice(NUMBERS).encode()
    return bytes(out[: 4 * MOST_BYTES])


def log(draw: random.Random) -> Input:
    """A job log, or several."""
    names = draw.sample(
        ["job.log", "rank_1.log", "rank_99999999999.log", "attempt_0/3/stderr.log", "slurm-1_2.out", "a\n\x1b[2Jb.log"],
        draw.choice((1, 1, 3)),
    )
    return Input(("diagnose", "."), {name: mutated(draw, draw.choice(_logs()).read_bytes()) for name in names})


def written_log(draw: random.Random) -> Input:
    """A log put together from the lines that readers know."""
    lines = []
    for _ in range(draw.randrange(1, 200)):
        rank, number = draw.choice(("0", "1", "7", *NUMBERS)), draw.choice(NUMBERS)
        lines.append(
            draw.choice(
                (
                    f"[rank{rank}]: Traceback (most recent call last):",
                    f'[rank{rank}]:   File "/job/train.py", line {number}, in main',
                    f"[rank{rank}]: ValueError: {draw.choice(ESCAPES)}",
                    f"srun: error: n1: tasks 0-{number}: Exited with exit code 1",
                    f"WORLD_SIZE={number}",
                    f"  rank      : {rank} (local_rank: {number})",
                    f"  exitcode  : -{number} (pid: {number})",
                    "Root Cause (first observed failure):",
                    "Failures:",
                    f"Sending process {number} closing signal SIGTERM",
                    (
                        f"[E ProcessGroupNCCL.cpp:5] [PG ID {number} PG GUID 0 Rank {rank}] Watchdog caught collective "
                        f"operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn={number}, NumelOut=1, "
                        f"Timeout(ms)=600000) ran for {number} ms"
                    ),
                    f"process {number} terminated with signal SIGKILL",
                    f"torch.OutOfMemoryError: Tried to allocate {number} GiB",
                    draw.choice(SHAPES)[0],
                    f"node7: {draw.choice(string.printable) * draw.choice((1, 100, 9000))}",
                )
            )
        )
    return Input(
        ("diagnose", "job.log", *draw.choice(((), ("--format", "json"), ("-v",), ("--format", "github")))),
        {"job.log": "\n".join(lines).encode("utf-8", "surrogatepass")},
    )


def dump(draw: random.Random) -> Input:
    """Recorder dumps in pickle or JSON."""
    files = {f"rank_{rank}": draw.choice(_dumps()).read_bytes() for rank in range(draw.choice((1, 2, 4)))}
    for name, content in list(files.items()):
        if draw.random() < 0.4:
            files[name] = mutated(draw, content)
        elif content[:1] == b"\x80":
            document = pickle.loads(content)
            files[name] = pickle.dumps(odd(draw, document), protocol=draw.choice((2, 4)))
        else:
            files[name] = json.dumps(odd(draw, json.loads(content))).encode()
    return Input(("diagnose", *files), files)


def odd(draw: random.Random, tree: Any, often: float = 0.004) -> Any:
    """A tree in which some values are others; some lists are shared with themselves many times."""
    if draw.random() < often:
        return draw.choice(
            (
                None,
                -1,
                10**9,
                2**70,
                "",
                "x" * 5000,
                [],
                {},
                [[]] * 100,
                float("nan"),
                1e400,
                draw.choice(ESCAPES),
                True,
            )
        )
    if isinstance(tree, dict):
        return {key: odd(draw, value, often) for key, value in tree.items() if draw.random() > often / 4}
    if isinstance(tree, list):
        return [odd(draw, value, often) for value in tree] * (1 if draw.random() > often * 2.5 else 3)
    return tree


def saved_case(draw: random.Random) -> Input:
    """A case of any example, with some values exchanged."""
    found = case._to_builtins(draw.choice(examples()))
    document = {"schema": case.SCHEMA, **json.loads(json.dumps(found, default=str))}
    content = json.dumps(odd(draw, document)).encode()
    if draw.random() < 0.2:
        content = mutated(draw, content)
    form = draw.choice(
        (
            ("--format", "json"),
            ("--format", "markdown"),
            ("--format", "junit"),
            ("--format", "html"),
            ("--format", "github"),
            (),
            ("-v",),
        )
    )
    return Input(("diagnose", "job.json", *form), {"job.json": content})


def program(draw: random.Random) -> Input:
    """Training code, launch scripts and manifests."""
    deep = "(" * 700 + "1" + ")" * 700
    texts = [path.read_bytes() for path in _scripts()]
    texts += [
        f"x = {deep}\n".encode(),
        b"x = " + b"-" * 3000 + b"1\n",
        b"\xff\xfe\x00a",
        "def é(): pass\n".encode("latin-1"),
        b"import torch.distributed as d\n" * 50,
    ]
    shell = b"#!/bin/bash\n#SBATCH --nodes=2\nexport MASTER_ADDR=localhost\nsrun torchrun --nproc-per-node 8 train.py\n"
    name = draw.choice(("train.py", "train.sh", "job.sbatch", "train.ipynb", "job.yaml", "x\x1b[2J.py"))
    return Input(("lint", "."), {name: mutated(draw, draw.choice([*texts, shell]))})


def checkpoint(draw: random.Random) -> Input:
    """Checkpoints of every format."""
    import torch

    buffer = BytesIO()
    tensor = draw.choice(
        (torch.ones(3), torch.ones(1).expand(1 << 33), torch.empty(1 << 40, device="meta"), torch.zeros(0))
    )
    torch.save({"w": tensor, **({"x": Runs()} if draw.random() < 0.3 else {})}, buffer)
    content = buffer.getvalue()
    if draw.random() < 0.3:
        packed = BytesIO()
        with zipfile.ZipFile(buffer) as whole, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in whole.infolist():
                archive.writestr(part.filename, whole.read(part))
        content = packed.getvalue()
    if draw.random() < 0.3:
        header = json.dumps(
            {
                "w": {
                    "dtype": "F32",
                    "shape": [draw.choice((1, 2**40, -1))],
                    "data_offsets": [0, draw.choice((4, 2**40))],
                }
            }
        ).encode()
        content = struct.pack("<Q", draw.choice((len(header), 2**62))) + header + b"\0\0\0\0"
        return Input(
            ("verify-sync", "a.safetensors", "b.safetensors"),
            {"a.safetensors": content, "b.safetensors": mutated(draw, content)},
        )
    return Input(("verify-sync", "a.pt", "b.pt"), {"a.pt": content, "b.pt": mutated(draw, content)})


def text(draw: random.Random) -> Input:
    """What somebody pastes to `explain`."""
    content = mutated(draw, draw.choice(_logs()).read_bytes()[:3000])
    return Input(("explain", "pasted.log"), {"pasted.log": content})

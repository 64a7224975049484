"""Small files that would take much memory or time."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import MEMORY, TIME, Attack
from tests.attacks.inputs import COMPARE, DUMPS, LINT, LOG, SHELL, TRAIN, data, dump_with, text

DEEP = 100_000


BOMB_DOUBLINGS = 60


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


def shared(levels: int) -> object:
    """Ten times ten times ... the same list."""
    tree: object = ["x"]
    for _ in range(levels):
        tree = [tree] * 10
    return tree


def laughs() -> str:
    """Nine kinds of nine of the kind before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(["kind: Job", *lines, "spec: *a11"]) + "\n"


ATTACKS: dict[str, Attack] = {
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
    "zip bomb": Attack(
        kind=MEMORY, law="bounded", arguments=COMPARE, make=archive_bomb, codes=(2,), shows="its parts are compressed"
    ),
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
}

"""Pipes, devices, sockets and links in the place of files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import FILES, Attack
from tests.attacks.inputs import (
    COMPARE,
    DUMPS,
    LINT,
    LOG,
    RAISED,
    RANK_1_RAISED,
    TRAIN,
    both,
    data,
    fifo,
    hard_link,
    link,
    text,
)


def listener(folder: Path) -> None:
    """A Unix socket in the place of a log."""
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(folder)  # its name has at most 108 bytes
        try:
            one.bind("job.log")
        finally:
            os.chdir(here)


def sparse(name: str) -> Callable[[Path], None]:
    """A file that begins as a log, or as the opcode of a pickle, and goes on for a terabyte that takes no room on the disk."""

    def make(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.write(b"\x80\x04}" if name.startswith("rank") else RAISED)
            file.truncate(1 << 40)

    return make


ATTACKS: dict[str, Attack] = {
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
    **{
        f"a terabyte of nothing in the place of {name}": Attack(
            kind=FILES, law="bounded", arguments=arguments, make=both(sparse(name), text(a__py=TRAIN)), shows=shows
        )
        for name, arguments, shows in (
            ("job.log", LOG, RANK_1_RAISED),
            ("pasted.log", ("explain", "pasted.log"), RANK_1_RAISED),
            ("t.py", LINT, "t.py was passed over: it has more than"),
            ("t.ipynb", LINT, "t.ipynb was passed over: it has more than"),
            ("rank_0", ("diagnose", "rank_0"), "a dump has at most"),
            ("b.json", ("lint", ".", "--baseline", "b.json"), "b.json cannot be read"),
            ("pyproject.toml", LINT, "pyproject.toml cannot be read"),
        )
    },
    "circle of links": Attack(
        kind=FILES,
        law="no crash",
        arguments=DUMPS,
        make=both(link("job.log", "job.log"), link("x", "."), data(a__log=RAISED)),
        codes=(1,),
        shows=RANK_1_RAISED,
    ),
    **{
        f"{what}, by a hard link": Attack(
            kind=FILES,
            law="the input stays",
            arguments=(*LOG, *option),
            make=both(data(job__log=RAISED), hard_link(option[1], "job.log")),
            codes=(1, 2),
            untouched=("job.log",),
        )
        for what, option in (
            ("a report over its own input", ("--output", "report.txt")),
            ("a case over its own input", ("--case", "case.json")),
        )
    },
    "a log under two names, by a hard link": Attack(
        kind=FILES,
        law="the rest is judged",
        arguments=DUMPS,
        make=both(data(job__log=RAISED), hard_link("again.log", "job.log")),
        codes=(1,),
        shows=RANK_1_RAISED,
    ),
    "a case over another file's second name": Attack(
        kind=FILES,
        law="the other file stays",
        arguments=(*LOG, "--case", "case.json"),
        make=both(data(job__log=RAISED, theirs=b"x"), hard_link("case.json", "theirs")),
        codes=(1,),
        untouched=("theirs",),
    ),
}

"""What the fuzzer draws as arguments: of every command, every option that it has, and words that nobody meant."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from tests.fuzz.inputs import ESCAPES, NUMBERS, Input

ODD = (
    *ESCAPES, *NUMBERS, "--", "-", "DDP", "DDP305", "x" * 5000, "a/" * 1500, "/dev/zero", "/proc/self/mem", "..", "pipe", "/dev",
    "\udc80", "1,,2", "1K..", "64M..1K", "1e3", "json", "html", "warn", "https://bob:hunter2@host/x", "--password=hunter2",
)  # fmt: skip
# With these a command refuses to begin: its ranks, its job or its meeting of nodes would take longer than all else here.
REFUSED = {
    "allreduce-bench": ("--nproc", "0"), "env": ("--deadline", "0"), "hang": ("4194305",), "net": ("--deadline", "0"),
    "smoke": ("--nproc", "0"), "top": ("--every", "0"), "train": ("--nproc", "0"), "verify-sync": ("job.log",),
    "watch": ("--stall-after", "0"),
}  # fmt: skip


@cache
def commands() -> dict[str, tuple[Any, ...]]:
    """The options and arguments of each command, as click has them."""
    from ddpdoctor import cli

    group = cli._app([]).group()
    return {name: tuple(command.params) for name, command in sorted(group.commands.items())}


def words(draw: random.Random) -> Input:
    """A command with odd words."""
    command = draw.choice(("diagnose", "lint", "explain", "checks", "init", "port", "config", "nothing"))
    return _input((command, *draw.choices(ODD, k=draw.randrange(5))))


def options(draw: random.Random) -> Input:
    """Any command with some of its own options, whose values are odd."""
    command = draw.choice(sorted(commands()))
    arguments = []
    for parameter in draw.choices(commands()[command], k=draw.randrange(5)):
        names = [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-")]
        if not names:
            arguments.append(draw.choice(ODD))
        elif getattr(parameter, "is_flag", False):
            arguments.append(draw.choice(names))
        else:
            arguments.append(f"{max(names, key=len)}={draw.choice(ODD)}")
    return _input((command, *REFUSED.get(command, ()), *(word for word in arguments if word != "--")))


def _input(arguments: tuple[str, ...]) -> Input:
    given = (word.replace("\0", "").replace("\n", "\u2028") for word in arguments)
    return Input(
        tuple(word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in given),
        {"job.log": b"x\n"},
    )

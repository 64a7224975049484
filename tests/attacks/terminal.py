"""Texts that act on a terminal, or pass for lines of ours."""

# ruff: noqa: E501 - an input is a line
from __future__ import annotations

from pathlib import Path

from tests.attacks.attack import TERMINAL, Attack
from tests.attacks.inputs import (
    COMPARE,
    DUMPS,
    ESCAPE,
    FORGED,
    LINT,
    LOG,
    RAISED,
    TRAIN,
    case_with,
    data,
    dump_with,
    text,
)

HOSTILE = f"x{ESCAPE}\n{FORGED}"
QUOTED = r"\x1b]0;x\x07"  # how the beginning of it must be shown


def names_of_tensors(folder: Path) -> None:
    """Tensors whose names act on a terminal, and differ."""
    import torch

    for name, value in (("a.pt", 1.0), ("b.pt", 2.0)):
        torch.save({f"w{ESCAPE}\n{FORGED}\n::error::x": torch.full((2,), value)}, folder / name)


def notes_that_escape(document: dict[str, object]) -> object:
    """A case with a note that acts on a terminal."""
    return {**document, "notes": [f"a{ESCAPE}\n{FORGED}"]}


ATTACKS: dict[str, Attack] = {
    "escapes in a log": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=LOG,
        shows=QUOTED,
        make=text(
            job__log=f'[rank1]: Traceback (most recent call last):\n[rank1]:   File "{ESCAPE}/t.py", line 3, in {ESCAPE}\n[rank1]: ValueError: {ESCAPE}\n'
        ),
    ),
    "escapes in a file's name": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=DUMPS,
        make=lambda folder: (folder / f"rank_0{ESCAPE}\n{FORGED}").write_bytes(b"\x80\x04 is no dump") and None,
        codes=(3,),
        forges=True,
    ),
    "escapes in the operation of a call": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("diagnose", ".", "-v"),
        make=dump_with(profiling_name=f"nccl:{ESCAPE}\n{FORGED}"),
        shows=QUOTED,
    ),
    "escapes in a frame": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("diagnose", "."),
        make=dump_with(frames=[{"name": ESCAPE, "filename": f"/{ESCAPE}\n{FORGED}", "line": 1}]),
        forges=True,
    ),
    "escapes in names of tensors": Attack(
        kind=TERMINAL, law="nothing unescaped", arguments=COMPARE, make=names_of_tensors, forges=True
    ),
    "escapes in a case": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("diagnose", "job.json", "-v"),
        make=case_with(notes_that_escape),
        forges=True,
    ),
    "escapes in a key of a project file": Attack(
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=LINT,
        make=text(
            t__py=TRAIN,
            pyproject__toml='[tool.ddpdoctor.lint]\n"a\\u001b[2J\\nno findings (30 checks ran, 0 skipped)" = 1\n',
        ),
        forges=True,
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
        kind=TERMINAL,
        law="nothing unescaped",
        arguments=("diagnose", f"x{ESCAPE}\n{FORGED}"),
        make=text(),
        codes=(2,),
        forges=True,
    ),
    **{
        f"escapes in an argument of {'no command' if arguments == (HOSTILE,) else arguments[0]}": Attack(
            kind=TERMINAL,
            law="nothing unescaped",
            arguments=arguments,
            make=data(job__log=RAISED),
            codes=(2, 3),
            shows=QUOTED,
        )
        for arguments in (
            ("allreduce-bench", "--sizes", HOSTILE),
            ("checks", "--format", HOSTILE),
            ("config", HOSTILE),
            ("diagnose", "--select", HOSTILE, "job.log"),
            ("env", "--deadline", HOSTILE),
            ("explain", "--format", HOSTILE, "x"),
            ("hang", HOSTILE),
            ("init", "--name", HOSTILE, "torchrun"),
            ("lint", "--baseline", HOSTILE, "."),
            ("net", "--nnodes", HOSTILE),
            ("port", HOSTILE),
            ("smoke", "--nproc", HOSTILE),
            ("top", "--every", HOSTILE),
            ("train", "--inject", HOSTILE),
            ("verify-sync", HOSTILE),
            ("watch", "--stall-after", HOSTILE, "--", "true"),
            (HOSTILE,),
        )
    },
    "a command to the CI service": Attack(
        kind=TERMINAL,
        law="no command of a stranger",
        arguments=("diagnose", "job.log", "--format", "github"),
        make=text(
            job__log="[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n::add-mask::x\n::set-output name=a::b\n"
        ),
        never=("\n::add-mask", "\n::set-output"),
    ),
}

"""Reads what a batch script asks its scheduler for: `#SBATCH` of Slurm, `#PBS` and `#BSUB`, all under Slurm's names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from ddpdoctor.evidence.scripts import Scheduler, Setting
from ddpdoctor.whole_numbers import whole_number

_SIGNS: dict[str, Scheduler] = {"#SBATCH": "Slurm", "#PBS": "PBS", "#BSUB": "LSF"}
_SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus"}
BATCH_SHELL = {"SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
"""What these hold in the shell of a batch script: it runs on the first node, and is no task of srun."""
_FROM_OPTIONS = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
}
GPUS_OF_A_NODE = 8  # a chunk of PBS with as many is taken for a node: few hosts have more
_PLACE = re.compile(r"\bplace=([a-z:]{1,100})")
_Asked = Sequence[tuple[Sequence[str], int]]
"""The words behind each `#SBATCH`, `#PBS` or `#BSUB`, with its line."""
_LSF_GPUS = re.compile(r"\bnum=(\d{1,4})\b(?!/task)")


def batch_options(comments: Iterable[tuple[str, int]]) -> tuple[Scheduler, tuple[Setting, ...]]:
    """The scheduler of a script and what the script asks it for, in order; empty where it is none.

    `comments` are the comments of the script with their lines. The scheduler is the one that the first of its options is for.
    """
    scheduler: Scheduler = ""
    asked: list[tuple[list[str], int]] = []
    for text, line in comments:
        sign = next((sign for sign in _SIGNS if text.startswith(sign)), "")
        if not sign or _SIGNS[sign] != (scheduler or _SIGNS[sign]):
            continue
        scheduler = _SIGNS[sign]
        asked.append((_split(text[len(sign) :]), line))
    return scheduler, tuple(_READERS[scheduler](asked)) if scheduler else ()


def of_the_batch_shell(options: Sequence[Setting]) -> dict[str, str]:
    """The variables that Slurm gives to the shell of a script with these options."""
    known = dict(BATCH_SHELL)
    for option in options:
        for name in _FROM_OPTIONS.get(option.name, ()):
            if whole_number(option.value) is not None:
                known[name] = option.value
    return known


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # an apostrophe in a remark behind it
        return text.split(" #", 1)[0].split()


def _slurm(asked: _Asked) -> Iterator[Setting]:
    for words, line in asked:
        for index, word in enumerate(words):
            if not word.startswith("-"):
                continue
            following = words[index + 1] if index + 1 < len(words) and not words[index + 1].startswith("-") else ""
            if word.startswith("--"):
                name, sign, value = word[2:].partition("=")
            else:
                name, sign, value = _SHORT.get(word[1], word[1]), word[2:], word[2:].lstrip("=")
            yield _setting(name, value if sign else following, line)


def _pbs(asked: _Asked) -> Iterator[Setting]:
    """`-l select=2:ncpus=32:ngpus=4`, and `-l nodes=2:ppn=8:gpus=4` of Torque; of several kinds of nodes nothing is read.

    PBS may place several chunks of `select` on one host: they are nodes with `-l place=scatter`, and those with as many GPUs as
    a node has. Of others nothing is read.
    """
    places = {
        place for words, _ in asked for word in words for each in _PLACE.findall(word) for place in each.split(":")
    }
    resources = [
        (following, line)
        for words, line in asked
        for word, following in zip(words, [*words[1:], ""], strict=True)
        if word == "-l"
    ]
    for text, line in resources:
        name, _, rest = text.partition("=")
        if name not in {"select", "nodes"} or "+" in rest:
            continue
        count, *chunk = rest.partition(",")[0].split(":")
        given = {resource: value for resource, _, value in (each.partition("=") for each in chunk)}
        gpus = given.get("ngpus", given.get("gpus", ""))
        large = (whole_number(gpus) or 0) >= GPUS_OF_A_NODE and "pack" not in places
        if name == "select" and "scatter" not in places and not large:
            continue
        yield _setting("nodes", count, line)
        if gpus:
            yield _setting("gpus-per-node", gpus, line)


def _lsf(asked: _Asked) -> Iterator[Setting]:
    """`-nnodes 2`, and `-gpu "num=4"`, which counts for each host."""
    for words, line in asked:
        for word, following in zip(words, [*words[1:], ""], strict=True):
            if word == "-nnodes":
                yield _setting("nodes", following, line)
            elif word == "-gpu" and (number := _LSF_GPUS.search(following)):
                yield _setting("gpus-per-node", number[1], line)


def _setting(name: str, value: str, line: int) -> Setting:
    return Setting(name=name, value=value, written=value, line=line)


_READERS = {"Slurm": _slurm, "PBS": _pbs, "LSF": _lsf}

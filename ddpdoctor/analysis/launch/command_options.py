"""The options of torchrun, accelerate and srun in a command, with one name for each, and what a count of GPUs says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddpdoctor.whole_numbers import whole_number

_TORCHRUN_FLAGS = frozenset(
    {"standalone", "no-python", "m", "module", "use-env", "use_env", "run-path", "virtual-local-rank", "h", "help"}
)
_ACCELERATE_FLAGS = frozenset(
    {"multi-gpu", "cpu", "tpu", "use-deepspeed", "use-fsdp", "use-megatron-lm", "quiet", "debug", "same-network", "module", "m",
     "no-python", "use-xpu", "ipex", "use-parallelism-config"}
)  # fmt: skip
_ACCELERATE_NAMES = {
    "num-machines": "nnodes",
    "machine-rank": "node-rank",
    "main-process-ip": "master-addr",
    "main-process-port": "master-port",
    "num-processes": "processes",
}
_DEEPSPEED_FLAGS = frozenset(
    {"no-ssh", "no-ssh-check", "force-multi", "module", "no-python", "no-local-rank", "save-pid", "elastic-training",
     "bind-cores-to-rank"}
)  # fmt: skip
_DEEPSPEED_NAMES = {
    "num-gpus": "nproc-per-node",
    "num-accelerators": "nproc-per-node",
    "num-nodes": "nnodes",
    "H": "hostfile",
}
_SRUN_SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus"}
_SRUN_SHORT_FLAGS = frozenset("luvqQkKsOEXbHIWZh")
_SRUN_FLAGS = frozenset(
    {
        "exclusive", "exact", "label", "unbuffered", "verbose", "quiet", "overlap", "overcommit", "no-kill", "pty", "immediate",
        "spread-job", "contiguous", "disable-status", "preserve-env", "multi-prog", "interactive", "kill-on-bad-exit",
        "oversubscribe", "propagate", "container-writable", "container-readonly", "container-mount-home",
        "no-container-mount-home", "container-remap-root", "no-container-entrypoint",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options in front of a program; names have hyphens, the value of a flag is empty."""

    values: Mapping[str, str] = field(default_factory=dict)
    """The name with its last value."""
    rest: tuple[str, ...] = ()
    """The program and its arguments."""
    complete: bool = True
    """False where a variable that the script does not determine may hold more options."""

    def number(self, name: str) -> int | None:
        """The option's value where it is a number; the lower one of `1:4`, which an elastic job has."""
        return whole_number(self.values.get(name, "").partition(":")[0])


def torchrun_options(words: Sequence[str]) -> Options:
    """The options of torchrun; `words` begin behind it."""
    return _options(words, _TORCHRUN_FLAGS, {"nproc-per-nodes": "nproc-per-node"})


def accelerate_options(words: Sequence[str]) -> Options:
    """The options of `accelerate launch`, under torchrun's names; `words` begin behind it."""
    return _options(words, _ACCELERATE_FLAGS, _ACCELERATE_NAMES)


def deepspeed_options(words: Sequence[str]) -> Options:
    """The options of DeepSpeed's launcher, under torchrun's names; `words` begin behind it."""
    return _options(words, _DEEPSPEED_FLAGS, _DEEPSPEED_NAMES)


def srun_options(words: Sequence[str]) -> Options:
    """The options of srun; `words` begin behind it."""
    values: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
            if not sign and name not in _SRUN_FLAGS and at < len(words) and not words[at].startswith("-"):
                value, at = words[at], at + 1
        else:
            letter, value = word[1:2], word[2:].removeprefix("=")
            if letter not in _SRUN_SHORT_FLAGS and not value and at < len(words):
                value, at = words[at], at + 1
            name = _SRUN_SHORT.get(letter, letter)
        values[name] = value
    rest = tuple(words[at:])
    return Options(values=values, rest=rest, complete=not (rest and rest[0].startswith(("$", "«"))))


def _options(words: Sequence[str], flags: frozenset[str], names: Mapping[str, str]) -> Options:
    values: dict[str, str] = {}
    complete = True
    at = 0
    while at < len(words):
        word = words[at]
        if word.startswith(("$", "«")):  # a variable: more options, or the program
            complete = False
            at += 1
            continue
        if not word.startswith("-"):
            break
        at += 1
        name, sign, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not sign and name not in flags and at < len(words) and not words[at].startswith("--"):
            value, at = words[at], at + 1
        values[names.get(name, name)] = value
    return Options(values=values, rest=tuple(words[at:]), complete=complete)


def gpu_count(value: str) -> int | None:
    """The GPUs that `gpu:a100:4`, `a100:4`, `4` or `gpu:1,nvme:100` ask for; None where it says no number."""
    total = 0
    for part in value.split(","):
        pieces = part.partition("(")[0].split(":")
        if len(pieces) > 1 and pieces[0] not in {"gpu", ""} and value.startswith("gpu"):
            continue  # another resource beside them
        if pieces == ["gpu"]:
            total += 1
        elif (count := whole_number(pieces[-1])) is not None:
            total += count
        else:
            return None
    return total

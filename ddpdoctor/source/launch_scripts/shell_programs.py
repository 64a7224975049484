"""What the programs of a launch script do with what follows them: run it elsewhere, as a script, as a text, with variables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.launch.mpi_options import MPI
from ddpdoctor.evidence.scripts import Setting

_NAMED = re.compile(r"[A-Za-z_]\w{0,200}=")
PRINTS = frozenset({"echo", "printf", "cat", "tee", "module", "source", ".", "cd", "set", "mkdir", "sleep", "conda"})
SOURCES = frozenset({"source", "."})
STARTS = frozenset(
    {"srun", "mpirun", "mpiexec", "jsrun", "blaunch", "aprun", "pbsdsh", "ssh", "pdsh", "clush", "exec",
     "env", "time", "nohup", "timeout", "singularity", "apptainer"}
)  # fmt: skip
"""What can stand in front of a script, or of the shell that runs it."""
REMOTE_SHELLS = frozenset({"ssh", "pdsh", "clush", "pssh", "parallel-ssh"})
ELSEWHERE = REMOTE_SHELLS | MPI | {"srun", "jsrun", "blaunch", "aprun", "pbsdsh", "pbs_tmrsh"}
"""What starts a shell on other hosts, or in tasks."""
SAME_HOST = frozenset({"exec", "time", "nohup", "timeout"})
"""What can stand in front of a shell, or of what starts it elsewhere, and changes nothing."""
SHELLS = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash"})


def variables_given(words: Sequence[str]) -> list[str]:
    """`NAME=VALUE` of `env NAME=...`, of `srun --export=ALL,NAME=...` and of `mpirun -x NAME=...`, for what these start."""
    program = words[0].rpartition("/")[2] if words else ""
    if program == "env":
        return [word for word in words[1:] if _NAMED.match(word)]
    if program == "srun":
        exported = [word.partition("=")[2] for word in words if word.startswith("--export=")]
        behind = words[words.index("env") + 1 :] if "env" in words else ()
        return [
            *(part for each in exported for part in each.split(",") if _NAMED.match(part)),
            *itertools.takewhile(lambda word: _NAMED.match(word) is not None, behind),
        ]
    return list(_exported_by_mpi(words)) if program in MPI else []


def handed_over(words: Sequence[str], line: int) -> tuple[Setting, ...]:
    """The variables that a command gives to what it starts: `env NAME=...`, `mpirun -x NAME=...`."""
    given = (each.partition("=") for each in variables_given(words))
    return tuple(
        Setting(name=name, value=value, written=value, line=line, only_for_command=True) for name, _, value in given
    )


def script_among(words: Sequence[str]) -> int | None:
    """The place of the script that the words source or run; None where they do neither."""
    at = next((index for index, word in enumerate(words) if word.endswith((".sh", ".bash"))), None)
    if at is None or (at and words[0] not in SOURCES | SHELLS | STARTS):
        return None
    shell = next((index for index, word in enumerate(words[:at]) if word in SHELLS), at)
    as_text = any(is_command_flag(word) for word in words[shell:at])
    by_python = any(word.endswith(".py") or word.startswith("python") for word in words[:at])
    return None if as_text or by_python else at


def runs_elsewhere(around: Sequence[str]) -> bool:
    """Whether a shell below the command `around` runs on other hosts or in tasks, and not in this one's place."""
    return bool(around) and (around[0] not in SAME_HOST or not ELSEWHERE.isdisjoint(around))


def is_command_flag(word: str) -> bool:
    """`-c`, `-lc`, `-euxc`: what follows is the text to run."""
    return word.startswith("-") and not word.startswith("--") and word.endswith("c")


def _exported_by_mpi(words: Sequence[str]) -> Iterator[str]:
    """What `-x NAME=VALUE` of Open MPI, and `-genv NAME VALUE` of MPICH, give to all processes, as `NAME=VALUE`."""
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word == "-x" and _NAMED.match(following):
            yield following
        elif word in {"-genv", "-env"} and at + 2 < len(words):
            yield f"{following}={words[at + 2]}"

"""What `verify-sync` refuses to check, with what was probably meant: a launcher, an interpreter, a script among checkpoints."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from ddpdoctor.checkpoints.detect import is_checkpoint, is_python_script
from ddpdoctor.errors import UsageError

_PYTHON = re.compile(r"python[\d.]*")


def refuse_options_of_scripts(given: Mapping[str, object]) -> None:
    """Without a script nothing is followed step by step; an option that asks for it means that the script was forgotten."""
    name = next((name for name, value in given.items() if value), None)
    if name is not None:
        raise UsageError(
            f"{name} is about a training script, and none is given",
            hint=f"`ddpdoctor verify-sync {name}{f' {given[name]}' if not isinstance(given[name], bool) else ''} train.py`",
        )


def refuse_other_launchers(nproc: int | None) -> None:
    """With `--own-ranks` nobody else may start the ranks."""
    from ddpdoctor.launch.ranks import current_launch

    launch = current_launch()
    if nproc is not None or launch is not None:
        by = (
            f"--nproc {nproc}"
            if launch is None
            else f"{launch.launcher}, which started this process as rank {launch.rank},"
        )
        raise UsageError(
            f"--own-ranks says that the script starts its ranks itself, and {by} would start it once per rank",
            hint="omit the other one: --own-ranks for mp.spawn and the like, --nproc N for scripts that run under torchrun",
        )


def refuse_other_files(target: list[str]) -> None:
    """Of several checkpoints each must be one."""
    for name in target:
        if name.startswith("-"):
            raise UsageError(
                f"{name} follows a checkpoint",
                hint=f"put options first: `ddpdoctor verify-sync {name} ... {target[0]}`",
            )
        if not Path(name).exists():
            raise UsageError(
                f"{name} does not exist",
                hint="give one checkpoint for each rank: `ddpdoctor verify-sync rank0.pt rank1.pt ...`",
            )
        if not is_checkpoint(Path(name)):
            raise UsageError(
                f"{name} is not a checkpoint, but {target[0]} is one",
                hint=f"to run a script, name it first: `ddpdoctor verify-sync --nproc 2 {name}`; to compare checkpoints, "
                "name no script",
            )


def refuse_script_before_checkpoints(target: list[str], nproc: int | None) -> None:
    """Checkpoints after a script are its arguments; where nothing says how to run it, something else was meant."""
    from ddpdoctor.evidence.launch import Launch

    arguments = [Path(name) for name in target[1:]]
    launched = isinstance(Launch.from_environ(os.environ), Launch)
    if arguments and nproc is None and not launched and all(map(is_checkpoint, arguments)):
        raise UsageError(
            f"{target[0]} is a script and {target[1]} its argument, and no --nproc says how many ranks to start",
            hint=f"to run it: `ddpdoctor verify-sync --nproc 2 {' '.join(target)}`; to compare checkpoints, leave the script out",
        )


def refuse_what_is_no_script(target: list[str]) -> None:
    """Said before ranks are announced that will not start."""
    if _is_launcher(target):
        raise UsageError(
            f"{target[0]} starts ranks, and verify-sync takes the script that runs in each of them",
            hint=f"`ddpdoctor watch --verify-sync -- {shlex.join(target)}`",
        )
    if _PYTHON.fullmatch(Path(target[0]).name):
        script = shlex.join(target[1:]) if target[1:] and not target[1].startswith("-") else "SCRIPT ..."
        raise UsageError(
            f"{target[0]} is an interpreter, and verify-sync starts Python itself",
            hint=f"`ddpdoctor verify-sync --nproc N {script}`",
        )
    if not Path(target[0]).is_file():
        wrong = "is not a file" if Path(target[0]).exists() else "does not exist"
        raise UsageError(
            f"{target[0]} {wrong}", hint="give the training script: `ddpdoctor verify-sync --nproc 2 train.py`"
        )
    if not is_python_script(Path(target[0])):
        raise UsageError(
            f"{target[0]} is neither a Python script nor a checkpoint",
            hint="give the training script (`ddpdoctor verify-sync --nproc 2 train.py`) or checkpoints (.pt, .safetensors, "
            "a directory)",
        )


def _is_launcher(target: list[str]) -> bool:
    """Whether the command line starts a launcher. A user's own script may have a launcher's name.

    An installed one is on the PATH or lies beside an interpreter, as in a virtual environment.
    """
    from ddpdoctor.host.launchers import MODULES, PROGRAMS

    file = Path(target[0])
    if _PYTHON.fullmatch(file.name):
        return target[1:2] == ["-m"] and not MODULES.keys().isdisjoint(target[2:3])
    if file.name not in PROGRAMS:
        return False
    if not is_python_script(file) or (file.parent / "python3").exists():
        return True
    installed = shutil.which(file.name)
    return installed is not None and file.samefile(installed)

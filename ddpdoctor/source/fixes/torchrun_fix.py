"""A command of a launch script that starts `torch.distributed.launch`, written with torchrun."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddpdoctor.model import Fix
from ddpdoctor.source.fixes.fix_conditions import lines_of

_LAUNCH = re.compile(
    r"(?:\S{0,200}/)?python[\d.]{0,8}(?:[ \t]{1,20}-[a-zA-Z]{1,8}){0,5}?[ \t]{1,20}-m[ \t]{1,20}"
    r"torch\.distributed\.launch\b"
)
_ENDS_A_COMMAND = re.compile(r"[;|&\n]")
_USE_ENV = re.compile(r"[ \t]{1,40}--use[_-]env\b")
MOST_LINES_OF_A_COMMAND = 60


def with_torchrun(text: str, fixes: Sequence[Fix]) -> tuple[str, list[Fix]]:
    """The script with torchrun in place of torch.distributed.launch, and without `--use_env` in the same command."""
    lines = lines_of(text)
    made = []
    for fix in fixes:
        at = end = fix.line - 1
        while end < min(len(lines), at + MOST_LINES_OF_A_COMMAND) - 1 and lines[end].rstrip("\r\n").endswith("\\"):
            end += 1
        command = "".join(lines[at : end + 1])
        changed = _USE_ENV.sub("", _LAUNCH.sub(_torchrun, command))
        if changed != command and _LAUNCH.search(command):
            lines[at : end + 1] = [changed, *[""] * (end - at)]
            made.append(fix)
    return "".join(lines), made


def _torchrun(launch: re.Match[str]) -> str:
    """`torchrun` in place of the old launcher; what echo and printf show stays."""
    before = _ENDS_A_COMMAND.split(launch.string[: launch.start()])[-1].split()
    return launch[0] if before[:1] in (["echo"], ["printf"]) else "torchrun"

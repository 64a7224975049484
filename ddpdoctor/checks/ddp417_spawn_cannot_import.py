"""Spawned ranks cannot import what they are to run: a local function, a notebook cell, a script without its guard."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP417",
    name="spawn-cannot-import",
    summary="spawned processes cannot import the function that they are to run",
    severity=Severity.FAIL,
    shown_by="the message names the function or class; it is local, a lambda, or the `__main__` guard is missing",
    remedy="put the function at the top level of a .py file and start it under `if __name__ == '__main__':`; in a notebook write "
    "it to a file first; or start the job with torchrun, which imports nothing",
    explains=("DDP318", "DDP401", "DDP403"),
    errors=(
        ErrorPattern(
            regex=r"Can't (?:pickle|get) local object|Can't get attribute '[^']*' on <module '__m",
            frames=r"/multiprocessing/",
        ),
        ErrorPattern(
            regex=r"start a new process before the|bootstrapping phase|Safe importing of main module",
        ),
    ),
)

_LOCAL = re.compile(r"Can't (?:pickle|get) local object (?:'(?P<name>[^'\n]+)'|(?P<bare>\S+))")
_MAIN = re.compile(r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>[^']+)'")


def check(failures: Failures) -> Iterator[Finding]:
    """What cannot be imported, and why."""
    found = failures.of("DDP417")
    if not found:
        return
    words = "\n".join(failure.text for failure in found)
    yield RULE.finding(
        _why(words),
        ranks=unique_ranks(found),
        where=[where for failure in found[:1] for where in failure.where("starts the processes here")],
    )


def _why(words: str) -> str:
    if local := _LOCAL.search(words):
        name = (local["name"] or local["bare"]).rpartition(".")[2]
        return f"spawned processes cannot import {name}: it is defined inside a function"
    if main := _MAIN.search(words):
        return f"spawned processes cannot find {main['name']} in {main['module']}: it was typed in, not imported from a file"
    return "spawned processes import the script and start processes again: its start is not under `if __name__ == '__main__':`"

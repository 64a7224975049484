"""Applies fixes to source code: libcst finds and writes the expressions, all other text stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ddpdoctor.model import Edit, Fix
from ddpdoctor.source.fixes.program_changes import ChangedProgram, ProgramChange
from ddpdoctor.source.fixes.torchrun_fix import with_torchrun


def fixed(text: str, fixes: Sequence[Fix]) -> tuple[str, list[Fix]]:
    """The text with the fixes that fit it, and which those are; a fix whose place is not found there is left out.

    Two fixes that change the same part are not made at once: the later one is left for another round. The text that is
    returned parses if the one that was given does.

    Raises:
        LibcstMissing: a fix of Python code is asked for, and libcst is not installed.
    """
    of_scripts = [fix for fix in fixes if fix.edit is Edit.TORCHRUN]
    if of_scripts:
        return with_torchrun(text, of_scripts)
    program = ChangedProgram(text)
    for singly in (False, True):
        result, made = _joined(program, fixes, singly=singly)
        if _parses(result) and _parses(whole := program.with_imports(result, made)):
            return whole, made
    return text, []


def _joined(program: ChangedProgram, fixes: Sequence[Fix], *, singly: bool) -> tuple[str, list[Fix]]:
    """The text with the changes of those fixes that go together; `singly` leaves each out with which it does not parse."""
    made: list[Fix] = []
    changes: list[ProgramChange] = []
    for fix in fixes:
        wanted = list(program.changes(fix))
        new = [each for each in wanted if each not in changes]  # the same change of another one serves this one, too
        if wanted and not any(_overlap(one, other) for one in new for other in changes):
            if singly and not _parses(_applied(program.text, [*changes, *new])):
                continue
            changes += new
            made.append(fix)
    return _applied(program.text, changes), made


def _applied(text: str, changes: Sequence[ProgramChange]) -> str:
    for change in sorted(changes, key=lambda each: (each.start, each.end), reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    return text


def _overlap(one: ProgramChange, other: ProgramChange) -> bool:
    return (one.start < other.end and other.start < one.end) or one == other


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True

"""Corrects what `lint` found, file by file, until a round changes nothing: `--fix`, `--unsafe-fixes` and `--diff`."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import UsageError
from ddpdoctor.model import Finding, Fix
from ddpdoctor.quoting import acts_on_a_terminal
from ddpdoctor.regular_file import read_regular
from ddpdoctor.source import notebooks
from ddpdoctor.source.fixes.apply import fixed
from ddpdoctor.source.fixes.embedded_fixes import Fixer, fixed_blocks, fixed_notebook
from ddpdoctor.source.fixes.possible_fixes import possible
from ddpdoctor.source.fixes.program_changes import LibcstMissing
from ddpdoctor.source.launch_script_files import SUFFIXES
from ddpdoctor.source.python_text import MARKDOWN

_SUFFIXES = frozenset({".py", notebooks.SUFFIX, *MARKDOWN, *SUFFIXES, ""})
_UNFIT = (OSError, SyntaxError, ValueError, LookupError, RecursionError)
"""A file that is gone, or that is no longer what was linted."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # as git counts them: neither a carriage return nor a form feed ends one
MOST_ROUNDS = 8  # fixes that touch the same part are made one after the other


@dataclass(slots=True)
class Fixed:
    """What was changed, or would be."""

    count: int = 0
    """How many fixes were made."""
    before: dict[str, bytes] = field(default_factory=dict)
    """By path, the content of each file with a fix before the first of them."""
    after: dict[str, bytes] = field(default_factory=dict)
    """By path, the content after the last fix."""
    read_only: dict[str, None] = field(default_factory=dict)
    """The paths of files that may not be written, in order."""

    def diff(self) -> tuple[str, list[str]]:
        """All changes as one unified diff that can be applied, and the files whose changes cannot be shown.

        Those hold escape sequences or other control characters near a change, or are no UTF-8.
        """
        parts: list[str] = []
        left_out: list[str] = []
        for name, old in self.before.items():
            lines = _changes(name, old, self.after[name])
            if lines is None or not name.isprintable() or any(map(acts_on_a_terminal, lines)):
                left_out.append(name)
            else:
                parts += lines
        return "".join(
            part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts
        ), left_out


def _changes(name: str, old: bytes, new: bytes) -> list[str] | None:
    """The lines of the unified diff of a file, with a heading that git and patch read; None where it is no UTF-8."""
    try:
        before, after = (_LINE.findall(data.decode()) for data in (old, new))
    except UnicodeError:
        return None
    file = Path(os.path.normpath(name))
    inner = str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file).lstrip("/")
    return [*difflib.unified_diff(before, after, fromfile=f"a/{inner}", tofile=f"b/{inner}")]


def preview(findings: Iterable[Finding], *, unsafe: bool) -> Fixed:
    """What the fixes of these findings would change; nothing is written.

    Raises:
        UsageError: libcst is not installed.
    """
    done = Fixed()
    for name, fixes in _by_file(findings, unsafe=unsafe).items():
        _correct(Path(name), fixes, done, write=False)
    return done


def fix_all(findings: Callable[[], Iterable[Finding]], *, unsafe: bool) -> Fixed:
    """Ask for findings and correct them, until nothing more can be; files are written atomically.

    Raises:
        UsageError: libcst is not installed.
        DdpdoctorError: a file cannot be written.
    """
    done = Fixed()
    for _ in range(MOST_ROUNDS):
        wanted = _by_file(findings(), unsafe=unsafe)
        if not sum(_correct(Path(name), fixes, done, write=True) for name, fixes in wanted.items()):
            break
    return done


def count_fixable(findings: Sequence[Finding], *, unsafe: bool) -> int:
    """How many findings a tool can correct, as their files are now."""
    can: set[Fix] = set()
    for name, fixes in _by_file(findings, unsafe=unsafe).items():
        with contextlib.suppress(*_UNFIT):
            data = read_regular(Path(name))
            can.update(_made(Path(name), data.decode(_encoding(Path(name), data)), fixes, possible)[1])
    return sum(finding.fix in can for finding in findings if finding.fix is not None)


def _fixable(finding: Finding, *, unsafe: bool) -> bool:
    """Whether a finding names a change for a kind of file that can be changed."""
    fix = finding.fix
    if fix is None or not (fix.safe or unsafe):
        return False
    return Path(notebooks.file_and_cell(fix.file)[0]).suffix in _SUFFIXES


def _by_file(findings: Iterable[Finding], *, unsafe: bool) -> dict[str, list[Fix]]:
    wanted: dict[str, list[Fix]] = {}
    for finding in findings:
        if finding.fix is not None and _fixable(finding, unsafe=unsafe):
            fixes = wanted.setdefault(notebooks.file_and_cell(finding.fix.file)[0], [])
            more = (each for each in finding.fix.also if each.safe or unsafe)
            fixes += [each for each in (finding.fix, *more) if each not in fixes]
    return wanted


def _correct(file: Path, fixes: list[Fix], done: Fixed, *, write: bool) -> int:
    """Make the fixes of one file; returns how many were made."""
    try:
        data = read_regular(file)
        encoding = _encoding(file, data)
        text, made = _made(file, data.decode(encoding), fixes, fixed)
        new = text.encode(encoding)
    except LibcstMissing as reason:
        raise UsageError(str(reason)) from None
    except _UNFIT:
        return 0
    if not made or new == data:
        return 0
    if write and _read_only(file):
        done.read_only[str(file)] = None
        return 0
    done.before.setdefault(str(file), data)
    if write:
        _write(file, new)
    done.after[str(file)] = new
    done.count += len({*made} - {each for fix in fixes for each in fix.also})
    return len(made)


def _read_only(file: Path) -> bool:
    """Whether nobody may write to a file: it could be replaced, but its owner did not mean it to be."""
    return not file.stat().st_mode & 0o222 or not os.access(file, os.W_OK)


def _encoding(file: Path, data: bytes) -> str:
    if file.suffix == notebooks.SUFFIX:
        return notebooks.encoding_of(data)
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0] if file.suffix == ".py" else "utf-8"


def _made(file: Path, text: str, fixes: list[Fix], fixer: Fixer) -> tuple[str, list[Fix]]:
    if file.suffix == notebooks.SUFFIX:
        return fixed_notebook(text, fixes, fixer)
    return fixed_blocks(text, fixes, fixer) if file.suffix in MARKDOWN else fixer(text, fixes)


def _write(file: Path, data: bytes) -> None:
    """Write atomically, and keep the permissions."""
    write_atomically(file, data, keeps=True)

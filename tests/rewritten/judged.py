"""What `lint` says of a program before and after a rewrite."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from ddpdoctor.model import Severity
from tests.planted_programs import Planted, mistakes_in, planted
from tests.rewritten.trees import Program, read, written


@dataclass(frozen=True, slots=True)
class Judged:
    """One program after one rewrite."""

    rewrite: str
    program: str
    kept: tuple[str, ...]
    """The codes of the planted mistakes that are still named."""
    lost: tuple[str, ...]
    """Those that are not."""
    false: tuple[str, ...]
    """The codes of warnings that it did not have before."""
    files: dict[str, str]


@lru_cache
def programs(pattern: str) -> list[Planted]:
    """The planted programs of Python files alone, as the trees write them: the control of all rewrites."""
    found = []
    for one in planted(pattern):
        text = "".join(one.files.values())
        if all(file.endswith(".py") for file in one.files) and "ddpdoctor: ignore" not in text:
            found.append(_of_files(one.name, written(read(one.files))))
    return found


def _of_files(name: str, files: dict[str, str]) -> Planted:
    return Planted(name, files, tuple(mistakes_in(files)))


def rewritten(program: Planted, rewrite: Callable[[Program], int]) -> Planted | None:
    """The program after a rewrite; None where that finds nothing to change, or what no Python can say: `(self.d := 1)`."""
    trees = copy.deepcopy(read(program.files))
    if not rewrite(trees):
        return None
    files = written(trees)
    try:
        for file, text in files.items():
            compile(text, file, "exec")
    except SyntaxError:
        return None
    return _of_files(program.name, files)


@cache
def _before(name: str, files: tuple[tuple[str, str], ...]) -> tuple[Counter[str], frozenset[str]]:
    found = _of_files(name, dict(files)).findings()
    return Counter(one.code for one in found), frozenset(one.code for one in found if one.severity is not Severity.INFO)


ALIKE = {"DDP730": "DDP731", "DDP731": "DDP730"}
"""A call under a test and a call behind an early exit are one mistake: a rewrite makes one of the other."""


def judged(name: str, program: Planted, rewrite: Callable[[Program], int]) -> Judged | None:
    """What lint keeps, loses and adds."""
    after = rewritten(program, rewrite)
    if after is None:
        return None
    findings = after.findings()
    counts, warned = _before(program.name, tuple(program.files.items()))
    places = {(where.file, where.line): set[str]() for one in findings for where in one.where}
    for one in findings:
        for where in one.where:
            places[where.file, where.line].add(one.code)
    found = Counter(one.code for one in findings)
    kept, lost = [], []
    at_lines = {(file, line): codes for file, line, codes in after.mistakes}
    wanted = [codes for _, _, codes in program.mistakes]
    named = [codes for place, codes in at_lines.items() if codes & places.get(place, set())]
    for codes in wanted:
        wide = codes | {ALIKE[one] for one in codes if one in ALIKE}
        here = codes in named or sum(found[one] for one in wide) >= sum(counts[one] for one in wide) > 0
        (kept if here else lost).append("|".join(sorted(codes)))
    planted_codes = {one for codes in wanted for one in codes} | {
        ALIKE[o] for codes in wanted for o in codes if o in ALIKE
    }
    added = {one.code for one in findings if one.severity is not Severity.INFO} - warned - planted_codes
    return Judged(name, program.name, tuple(kept), tuple(lost), tuple(sorted(added)), after.files)

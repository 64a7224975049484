"""Programs that were written to attack lint: some with one planted mistake each, some healthy ones that look sick.

`tests/data/planted/*.txt` hold them, one after the other. `### name/file.py` begins a file of the program `name`; `#! DDP730`
marks the line of the planted mistake, and several codes there are alternatives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Finding
from ddpdoctor.source.training_code import read_texts

FOLDER = Path(__file__).parent / "data" / "planted"
_HEAD = re.compile(r"^### (\S+?)/(\S+)$", re.MULTILINE)
_MARK = re.compile(r"#! ([A-Z0-9 ]+)$")


@dataclass(frozen=True, slots=True)
class Planted:
    """One program: its files, and for each planted mistake the line and the codes that name it."""

    name: str
    files: dict[str, str]
    mistakes: tuple[tuple[str, int, frozenset[str]], ...]

    def findings(self) -> list[Finding]:
        """What lint says of it."""
        code = read_texts(self.files)
        return list(diagnose(Evidence(job=(code,), launched=False), select=("DDP7",)).findings)


def planted(pattern: str) -> list[Planted]:
    """The programs in the files of `tests/data/planted` that match."""
    return [program for file in sorted(FOLDER.glob(pattern)) for program in _programs(file.read_text())]


def _programs(text: str) -> list[Planted]:
    parts = _HEAD.split(text)[1:]
    files: dict[str, dict[str, str]] = {}
    for name, file, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        files.setdefault(name, {})[file] = body.lstrip("\n")
    return [Planted(name, each, tuple(mistakes_in(each))) for name, each in files.items()]


def mistakes_in(files: dict[str, str]) -> list[tuple[str, int, frozenset[str]]]:
    """The marked lines of some files, and the codes of each."""
    return [
        (file, number, frozenset(mark[1].split()))
        for file, text in files.items()
        for number, line in enumerate(text.split("\n"), start=1)
        if (mark := _MARK.search(line))
    ]

"""A case of a job over several nodes: `top` asks for it in the directory in which nodes meet, and every `watch` answers."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor import case
from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence import Evidence
from ddpdoctor.host.owned_files import read_owned

REQUEST = ".case-wanted"
MOST_BYTES = 64  # of a request
FOLDER = re.compile(r"look-\d{8}-\d{6}")  # what a request may name: nothing outside the directory


def ask_for_case(directory: Path) -> Path:
    """Ask the `watch` of every node for a case; returns the folder into which they write.

    Raises:
        DdpdoctorError: nothing can be written to `directory`.
    """
    folder = directory / f"look-{time.strftime('%Y%m%d-%H%M%S')}"
    write_atomically(directory / REQUEST, folder.name.encode())
    return folder


def withdraw(folder: Path) -> None:
    """Take the request for `folder` away; what was answered stays."""
    with contextlib.suppress(OSError):
        (folder.parent / REQUEST).unlink(missing_ok=True)


def answers(folder: Path) -> int:
    """How many nodes have answered."""
    return len([*folder.glob(case.CASES_OF_NODES)])


@dataclass(slots=True)
class CaseRequests:
    """The requests for a case, seen by one node's `watch`."""

    directory: Path
    """The folder in which nodes meet."""
    _seen: str | None = None

    def next(self) -> Path | None:
        """The folder that a request made since the last call names; None where there is none."""
        text = ""
        with contextlib.suppress(OSError):
            text = read_owned(self.directory / REQUEST, None, most=MOST_BYTES).decode(errors="replace")
        before, self._seen = self._seen, text
        known = before is None or before == text  # a request older than this `watch` is not for it
        return self.directory / text if not known and FOLDER.fullmatch(text) else None


def answer(folder: Path, evidence: Evidence) -> None:
    """Write this node's case into `folder`; where that fails the asker sees that one is missing."""
    if evidence.ranks:
        lowest = min(facts.rank for facts in evidence.ranks)
        with contextlib.suppress(DdpdoctorError):
            case.save(evidence, folder / case.CASES_OF_NODES.replace("*", str(lowest)))

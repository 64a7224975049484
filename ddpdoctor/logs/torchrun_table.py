"""torchrun's table of failures, whole or in part."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from ddpdoctor.logs.tracebacks import Tracebacks

_FIELD = re.compile(r"^\s*(time|host|rank|exitcode|error_file|traceback)\s*: (.*)$")
_RANK = re.compile(r"^(\d+) \(local_rank: (\d+)\)")
_CODE = re.compile(r"^(-?\d+)\s*\(pid: (\d+)\)")
_NUMBER = re.compile(r"^\[\d+\]:\s*$")


@dataclass(slots=True)
class TorchrunRow:
    """One rank of the table."""

    rank: int
    """The global rank."""
    host: str = ""
    """As torchrun names it; empty where the row has none."""
    ended_at: float | None = None
    """When torchrun saw its end, in seconds since the epoch."""
    code: int | None = None
    """Its exit code, or -N for signal N."""
    pid: int | None = None
    """Its process id on its host; None where the row has none."""
    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    """What its error file holds."""
    errors_before: int = 0
    """How many exceptions without a rank stand before its table."""


@dataclass(slots=True)
class TorchrunTable:
    """Fed with the lines of a log in order; a table that begins in the middle is read from its first full row on."""

    rows: list[TorchrunRow] = field(default_factory=list)
    """The ranks that it lists, in its order."""
    whole: bool = False
    """Whether both its list of failures and its root cause are in the log."""
    rooted: bool = False
    """Whether its root cause is in the log."""
    _open: bool = False
    _headed: bool = False
    _time: float | None = None
    _host: str = ""
    _row: TorchrunRow | None = None

    @property
    def first_is_cut(self) -> bool:
        """Whether the log ends before the rank that failed first: those that are left failed later."""
        return self._headed and not self.rooted and bool(self.rows)

    def take(self, text: str) -> bool:
        """Take the next line; True where it belongs to the table."""
        bare = text.strip()
        if bare.startswith(("Failures:", "Root Cause (first observed failure):")):
            self.rooted = self.rooted or bare.startswith("Root")
            self.whole = self.whole or (self._headed and self.rooted)
            self._headed = self._headed or bare.startswith("Failures:")
            self._open, self._row = True, None
            return True
        found = _FIELD.match(text)
        if found is None and _NUMBER.match(bare):
            self._open = True
            return True
        if not self._open and not (found and _is_of_a_table(found[1], found[2])):
            return False
        self._open = True
        if bare.startswith("====="):
            self._open, self._row = False, None
            return True
        if found is not None:
            self._field(found[1], found[2].strip())
            return True
        if bare == "<NO_OTHER_FAILURES>" or not bare or re.match(r"^-{5,}$", bare):
            return True
        if self._row is not None and text.startswith(" "):
            self._row.tracebacks.feed(text.removeprefix("  "))
            return True
        self._open, self._row = False, None
        return False

    def _field(self, name: str, value: str) -> None:
        if name == "time":
            self._time, self._row = _time(value), None
        elif name == "host":
            self._host = value
        elif name == "rank" and (found := _RANK.match(value)):
            rank = int(found[1])
            self._row = next((row for row in self.rows if row.rank == rank and row.host in {"", self._host}), None)
            if self._row is None:
                self._row = TorchrunRow(rank=rank, host=self._host, ended_at=self._time)
                self.rows.append(self._row)
        elif self._row is not None and name == "exitcode" and (found := _CODE.match(value)):
            self._row.code, self._row.pid = int(found[1]), int(found[2])
        elif self._row is not None and name == "traceback" and value.startswith("Traceback"):
            self._row.tracebacks.feed(value)


def _is_of_a_table(name: str, value: str) -> bool:
    return (name == "rank" and _RANK.match(value) is not None) or (
        name == "exitcode" and _CODE.match(value) is not None
    )


def _time(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d_%H:%M:%S").astimezone().timestamp()
    except ValueError:
        return None

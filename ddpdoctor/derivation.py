"""What is derived from evidence: finds the kind that a check or a renderer asks for, or derives it, each once."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ddpdoctor.analysis.crashes.end_request import as_requested
from ddpdoctor.analysis.crashes.error_patterns import ErrorTable
from ddpdoctor.catalogue import analyses, error_table
from ddpdoctor.evidence import Evidence, PerRank, noun_of
from ddpdoctor.model import SkipCheck

T = TypeVar("T")


def derived(evidence: Evidence, kind: type[T]) -> T | None:
    """What the checks are given as `kind` over this evidence, or None where it cannot be derived."""
    found: T | None = Resolver(as_requested(evidence))(kind | None)
    return found


class Deriver(Protocol):
    """Answers what can be derived from one evidence, each kind once."""

    def __call__(self, kind: type[T]) -> T | None:
        """What the checks are given as `kind`; None where it cannot be derived, or where its analysis crashes."""


def deriver(evidence: Evidence) -> Deriver:
    """Derivations over `evidence` for a renderer, which shows what there is: a check says what crashed."""
    resolver = Resolver(as_requested(evidence))

    def derive(kind: type[T]) -> T | None:
        try:
            found: T | None = resolver(kind | None)
        except Exception:  # noqa: BLE001 - the report has the crash of the checks that need it
            return None
        return found

    return derive


class Resolver:
    """Finds a declared kind in the evidence, or derives it once."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._derived: dict[Any, Any] = {}
        self._of_ranks: dict[Any, Any] = {}
        self._kinds_of_ranks = evidence.kinds_of_ranks()

    def __call__(self, kind: Any) -> Any:  # noqa: ANN401 - kinds are data
        """The evidence of a declared kind; None for `X | None` where there is none.

        Raises:
            Absent: it is neither in the evidence nor can be derived from it.
        """
        if kind in self._derived:
            return self._derive(kind)
        if type(None) in typing.get_args(kind):
            return self._optional(kind)
        if typing.get_origin(kind) is PerRank:
            (inner,) = typing.get_args(kind)
            if inner not in self._of_ranks:
                self._of_ranks[inner] = self._evidence.per_rank(inner) if inner in self._kinds_of_ranks else None
            return self._present(self._of_ranks[inner], inner)
        if kind is ErrorTable:
            return error_table()
        given = self._evidence.one(kind)
        if given is None and kind in analyses():
            return self._derive(kind)
        return self._present(given, kind)

    def _optional(self, kind: Any) -> Any:  # noqa: ANN401
        """What stands in `X | None`, or None where it is not there: evidence that a check uses but can do without."""
        (wanted,) = (inner for inner in typing.get_args(kind) if inner is not type(None))
        try:
            return self(wanted)
        except Absent:
            return None

    def _derive(self, kind: Any) -> Any:  # noqa: ANN401
        if kind not in self._derived:
            function, inputs = analyses()[kind]
            given: list[Any] = []
            try:
                given += (self(needed) for needed in inputs)
                self._derived[kind] = function(*given)
            except Absent as absent:
                self._derived[kind] = _Why(absent.reason, absent.tried)
            except SkipCheck as skip:  # without any input, the command did not ask for it
                tried = any(value is not None and not isinstance(value, ErrorTable) for value in given)
                self._derived[kind] = _Why(str(skip), tried)
        found = self._derived[kind]
        if isinstance(found, _Why):
            raise Absent(found.reason, tried=found.tried)
        return found

    def _present(self, value: Any, kind: type) -> Any:  # noqa: ANN401
        if value is None:
            reason = self._evidence.why_missing(kind.__name__)
            noun = noun_of(kind.__name__)
            raise Absent(f"no {noun}: {reason}" if reason else f"no {noun} in the evidence", tried=bool(reason))
        return value


class Absent(Exception):  # noqa: N818 - carries a reason, is never shown
    """Evidence that a check or an analysis declares is not there; `tried`: a reader gave the reason."""

    def __init__(self, reason: str, *, tried: bool) -> None:
        super().__init__(reason, tried)
        self.reason = reason
        self.tried = tried


@dataclass(frozen=True, slots=True)
class _Why:
    """The contents of an `Absent`, to be kept: an exception would keep alive the frames that it has passed."""

    reason: str
    tried: bool

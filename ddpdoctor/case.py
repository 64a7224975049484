"""Evidence to files and back, secrets redacted: a case is judged again on any machine, without the job.

A case is one JSON document (`"schema": "ddpdoctor.case/1"`), either a file or `case.json` in a directory that may hold
raw material beside it (recorder dumps, stacks, logs).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from ddpdoctor import __version__
from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts, kinds
from ddpdoctor.json_errors import JSON_ERRORS
from ddpdoctor.redaction import redact
from ddpdoctor.regular_file import read_regular

SCHEMA = "ddpdoctor.case/1"
CASE_FILE = "case.json"
CASES_OF_NODES = "node-with-rank-*.json"  # beside it, where several nodes share a directory
LARGE_BYTES = 4096  # of a fact whose fields are worth a digest each
DIGEST_BYTES = 16
MAX_CASE_BYTES = 2 << 30  # a 4,096-rank case without raw dumps is about 400 MB; beyond this it is not one of ours


def save(evidence: Evidence, path: Path) -> Path:
    """Write `evidence`, redacted, to `path`: a file where it ends in .json, else a directory. Returns the file."""
    file = path if path.suffix == ".json" else path / CASE_FILE
    document = _in_json({"schema": SCHEMA, "written_by": f"ddpdoctor {__version__}", **_to_builtins(redact(evidence))})
    write_atomically(file, msgspec.json.format(msgspec.json.encode(document), indent=1).decode(), private=True)
    return file


def load(path: Path) -> Evidence:
    """The evidence in the case at `path`.

    Raises:
        UsageError: there is no such file, or it is not a case that this version can read; the message says why.
    """
    file = path / CASE_FILE if path.is_dir() else path
    try:
        data = read_regular(file, most=MAX_CASE_BYTES)
        head = _head(data)
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist", hint="save a case with `--case PATH`") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except JSON_ERRORS as error:
        reason = "its end is missing" if "truncated" in str(error) else error
        raise UsageError(f"{file} is not a ddpdoctor case: {reason}", hint="save a case with `--case PATH`") from None
    if head.schema != SCHEMA:
        reason = f'its "schema" is {head.schema!r}' if head.schema is not None else 'it has no "schema" key'
        writer = f"; {head.written_by} wrote it and reads it" if isinstance(head.written_by, str) else ""
        raise UsageError(f"{file} is not a case that this version reads: {reason}, expected {SCHEMA!r}{writer}")
    return _decoded(data, source=str(file))


def _to_builtins(evidence: Evidence) -> dict[str, Any]:
    return {
        "launched": evidence.launched,
        "about_job": evidence.about_job,
        "meta": dict(evidence.meta),
        "job": _by_kind(evidence.job),
        "ranks": [{"rank": facts.rank, "host": facts.host, "facts": _by_kind(facts.facts)} for facts in evidence.ranks],
        "missing": [msgspec.to_builtins(missing) for missing in evidence.missing],
        "notes": list(evidence.notes),
        "undecided": list(evidence.undecided),
        **({"earlier": [_to_builtins(attempt) for attempt in evidence.earlier]} if evidence.earlier else {}),
    }


def _in_json(document: dict[str, Any]) -> dict[str, Any]:
    """`document`, with names for the numbers that JSON has none for: a loss may be NaN, a gradient infinite."""
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        return {"non_finite": True, **{key: _named(value) for key, value in document.items()}}
    return document


def _named(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    return [*map(_named, value)] if isinstance(value, list | tuple) else value


def _by_kind(facts: tuple[Any, ...]) -> dict[str, Any]:
    return {type(fact).__name__: msgspec.to_builtins(fact, str_keys=True) for fact in facts}


def _decoded(data: bytes, *, source: str) -> Evidence:
    unknown: set[str] = set()
    try:
        document = msgspec.json.decode(data, type=_Document)
        evidence = _evidence(document, _FactReader(strict=not document.non_finite), unknown)
    except (ValueError, RecursionError) as error:  # of msgspec, or of evidence that does not fit together
        raise UsageError(f"{source} is not a valid case: {error}") from None
    if not unknown:
        return evidence
    ignored = f"the case holds evidence this version does not know and ignores: {', '.join(sorted(unknown))}"
    return replace(evidence, notes=(*evidence.notes, ignored))


def _evidence(shell: _Document, reader: _FactReader, unknown: set[str]) -> Evidence:
    return Evidence(
        job=reader.facts(shell.job, unknown),
        ranks=tuple(
            RankFacts(rank=rank.rank, host=rank.host, facts=reader.facts(rank.facts, unknown)) for rank in shell.ranks
        ),
        missing=tuple(shell.missing),
        notes=tuple(shell.notes),
        undecided=tuple(shell.undecided),
        launched=shell.launched,
        about_job=shell.about_job,
        meta=shell.meta,
        earlier=tuple(_evidence(attempt, reader, unknown) for attempt in shell.earlier),
    )


@dataclass(slots=True)
class _FactReader:
    """Reads facts. A field that large facts of several ranks have in common is read, kept and looked at once."""

    strict: bool = True
    """Whether no number is written as a text."""
    _shared: dict[tuple[type, str, bytes], Any] = field(default_factory=dict)

    def facts(self, by_kind: Mapping[str, msgspec.Raw], unknown: set[str]) -> tuple[Any, ...]:
        """The facts of kinds that this version knows; the names of others are added to `unknown`."""
        known = kinds()
        unknown.update(by_kind.keys() - known.keys())
        return tuple(self._fact(known[name], written) for name, written in by_kind.items() if name in known)

    def _fact(self, kind: type, written: msgspec.Raw) -> Any:  # noqa: ANN401 - evidence of any kind
        if len(memoryview(written)) >= LARGE_BYTES:
            with contextlib.suppress(msgspec.ValidationError):  # read as a whole, it says where the error is
                return self._large_fact(kind, written)
        return msgspec.json.decode(written, type=kind, strict=self.strict)

    def _large_fact(self, kind: type, written: msgspec.Raw) -> Any:  # noqa: ANN401
        types = _field_types(kind)
        fields_written = msgspec.json.decode(written, type=dict[str, msgspec.Raw])
        if not _required(kind) <= fields_written.keys():
            raise msgspec.ValidationError(f"a field of {kind.__name__} is missing")
        return kind(
            **{
                name: self._field(kind, name, types[name], value)
                for name, value in fields_written.items()
                if name in types
            }
        )

    def _field(self, kind: type, name: str, type_: Any, written: msgspec.Raw) -> Any:  # noqa: ANN401
        key = kind, name, hashlib.blake2b(written, digest_size=DIGEST_BYTES).digest()
        if key not in self._shared:
            self._shared[key] = msgspec.json.decode(written, type=type_, strict=self.strict)
        return self._shared[key]


@cache
def _field_types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _required(kind: type) -> frozenset[str]:
    """The fields without a default."""
    return frozenset(one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING)


class _Head(msgspec.Struct):
    schema: Any = None
    written_by: Any = None


def _head(data: bytes) -> _Head:
    """What a JSON document says of itself; nothing where it is no object."""
    try:
        return msgspec.json.decode(data, type=_Head)
    except msgspec.ValidationError:
        msgspec.json.decode(data)  # raises where it is no JSON either
        return _Head()


class _Rank(msgspec.Struct):
    rank: int
    host: str
    facts: dict[str, msgspec.Raw]


class _Document(msgspec.Struct):
    non_finite: bool = False
    launched: bool = True
    about_job: bool = False
    meta: dict[str, str] = {}
    job: dict[str, msgspec.Raw] = {}
    ranks: list[_Rank] = []
    missing: list[Missing] = []
    notes: list[str] = []
    undecided: list[str] = []
    earlier: list[_Document] = []

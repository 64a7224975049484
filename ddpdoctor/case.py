"""Evidence to files and back, secrets redacted: a case is judged again on any machine, without the job.

A case is one JSON document (`"schema": "ddpdoctor.case/1"`), either a file or `case.json` in a directory that may hold
raw material beside it (recorder dumps, stacks, logs).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import accumulate, pairwise
from operator import is_
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from ddpdoctor import __version__
from ddpdoctor.errors import DdpdoctorError, UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts, kinds
from ddpdoctor.json_errors import JSON_ERRORS
from ddpdoctor.planted_files import check_pipe, copy_owner, led_to, permissions_of
from ddpdoctor.regular_file import read_regular
from ddpdoctor.secrets import REDACTED, names_a_secret, redact_text

SCHEMA = "ddpdoctor.case/1"
_HARMLESS = (int, float, type(None))
MOST_TEXTS, MOST_CHARACTERS = 1000, 100_000  # of arguments or lines that are redacted together
CASE_FILE = "case.json"
CASES_OF_NODES = "node-with-rank-*.json"  # beside it, where several nodes share a directory
LARGE_BYTES = 4096  # of a fact whose fields are worth a digest each
DIGEST_BYTES = 16
MAX_CASE_BYTES = 2 << 30  # a 4,096-rank case without raw dumps is about 400 MB; beyond this it is not one of ours


def redact(evidence: Evidence) -> Evidence:
    """`evidence` with every string redacted, so that neither a report nor a case can leak a secret.

    A fact that was redacted last time is not redacted again: a report, its page and the case are made of the same facts.
    """
    last = tuple(_LAST_REDACTED)  # in memory until this call ends, so that no other object takes the identity of a fact
    seen = {id(fact): clean for fact, clean in last}
    clean = _clean(evidence, seen)
    assert isinstance(clean, Evidence)
    _LAST_REDACTED[:] = [pair for one in _facts_of(evidence) for pair in ((one, seen[id(one)]), (seen[id(one)],) * 2)]
    return clean


_LAST_REDACTED: list[tuple[Any, Any]] = []
"""Facts, each with what `redact` made of it."""


def _facts_of(evidence: Evidence) -> Iterator[Any]:
    yield from evidence.job
    for facts in evidence.ranks:
        yield from facts.facts
    for attempt in evidence.earlier:
        yield from _facts_of(attempt)


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
        schema = _schema(data)
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist", hint="save a case with `--case PATH`") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except JSON_ERRORS as error:
        raise UsageError(f"{file} is not a ddpdoctor case: {error}", hint="save a case with `--case PATH`") from None
    if schema != SCHEMA:
        reason = f'its "schema" is {schema!r}' if schema is not None else 'it has no "schema" key'
        raise UsageError(f"{file} is not a case that this version reads: {reason}, expected {SCHEMA!r}")
    return _decoded(data, source=str(file))


def write_atomically(path: Path, content: str | bytes, *, private: bool = False, keeps: bool = False) -> None:
    """Write `content` to `path` so that a reader sees all of it or nothing; directories are made.

    A `private` file that is new is for its owner alone. With `keeps`, a file that is there keeps its owner and permissions
    whoever chose them, as far as we may set them; else only permissions that we have chosen. A link stays a link, and what is
    no file (`/dev/null`, a named pipe) is written to and not replaced. What another user may have planted is neither followed
    nor written into (`planted_files.py`).

    Raises:
        DdpdoctorError: the place is read-only, full or not a directory; no half-written file and no new directory stays behind.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    made: list[Path] = []  # the innermost directory first
    try:
        target = led_to(path)
        if target.exists() and not target.is_file():
            check_pipe(target)
            target.write_bytes(data)
            return
        made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "wb") as file:
            if keeps and target.exists():  # by descriptor: under the name there could be another file by now
                copy_owner(target, descriptor)
            else:
                os.fchmod(descriptor, _mode(target, private=private))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(target)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        with contextlib.suppress(OSError):  # somebody may have put something there since
            for folder in made:
                folder.rmdir()
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space there, or give another path" if full else "give a path in a writable directory"
        raise DdpdoctorError(f"cannot write {path}: {error.strerror}", hint=hint) from None


def _mode(path: Path, *, private: bool) -> int:
    """The permissions of the file of ours that is there, which we may have chosen, or those of a new one."""
    chosen = permissions_of(path)
    return chosen if chosen is not None else 0o600 if private else 0o666 & ~_umask()


def _umask() -> int:
    """The permissions that the user withholds from new files; they can be asked for only by setting them."""
    withheld = os.umask(0o077)
    os.umask(withheld)
    return withheld


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


class _Shell(msgspec.Struct):
    schema: Any = None


def _schema(data: bytes) -> Any:  # noqa: ANN401 - whatever a foreign file says
    """What a JSON document says under "schema"; None where it is no object."""
    try:
        return msgspec.json.decode(data, type=_Shell).schema
    except msgspec.ValidationError:
        msgspec.json.decode(data)  # raises where it is no JSON either
        return None


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


def _clean(value: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    """`value`, evidence of any kind, redacted; itself where there is nothing to redact. `seen` holds what is shared."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redact_text(value)
    if isinstance(value, _HARMLESS):
        return value
    if id(value) not in seen:
        seen[id(value)] = _clean_container(value, seen)
    return seen[id(value)]


def _clean_container(value: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        keys = [_clean(key, seen) for key in value]
        items = [
            REDACTED if isinstance(item, str) and names_a_secret(str(key)) else _clean(item, seen)
            for key, item in value.items()
        ]
        same = all(map(is_, keys, value)) and all(map(is_, items, value.values()))
        return value if same else dict(zip(keys, items, strict=True))
    if isinstance(value, tuple | list | frozenset):
        if all(issubclass(kind, _HARMLESS) for kind in set(map(type, value))):
            return value
        items = _clean_texts(value) or [_clean(item, seen) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for name in _field_names(type(value)):
            item = getattr(value, name)
            if isinstance(item, _HARMLESS):
                continue
            clean = REDACTED if isinstance(item, str) and names_a_secret(name) else _clean(item, seen)
            if clean is not item:
                changed[name] = clean
        return replace(value, **changed) if changed else value
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _clean_texts(texts: Collection[Any]) -> list[str] | None:
    """Arguments or lines, redacted with a view of those beside each: the name of a secret and its value may be two texts.

    None for anything but a few texts: each is redacted for itself then.
    """
    if not 1 < len(texts) <= MOST_TEXTS or not all(type(text) is str for text in texts):
        return None
    together = "\n".join(texts)
    if len(together) > MOST_CHARACTERS:
        return None
    redacted = redact_text(together)
    if redacted == together:
        return [*texts]
    lines = redacted.split("\n")
    ends = [*accumulate(text.count("\n") + 1 for text in texts)]
    if len(lines) != ends[-1]:  # a secret of several lines is one word now
        return None
    return ["\n".join(lines[start:end]) for start, end in pairwise([0, *ends])]

"""Evidence to files and back, secrets redacted: a case is judged again on any machine, without the job.

A case is one JSON document (`"schema": "ddpdoctor.case/1"`), either a file or `case.json` in a directory that may hold
raw material beside it (recorder dumps, stacks, logs).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from operator import is_
from pathlib import Path
from typing import Any

import msgspec

from ddpdoctor import __version__
from ddpdoctor.errors import DdpdoctorError, UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts, kinds
from ddpdoctor.secrets import REDACTED, names_a_secret, redact_text

SCHEMA = "ddpdoctor.case/1"
_HARMLESS = (int, float, type(None))
CASE_FILE = "case.json"
CASES_OF_NODES = "node-with-rank-*.json"  # beside it, where several nodes share a directory
MAX_CASE_BYTES = 2 << 30  # a 4,096-rank case without raw dumps is about 400 MB; beyond this it is not one of ours


def redact(evidence: Evidence) -> Evidence:
    """`evidence` with every string redacted, so that neither a report nor a case can leak a secret."""
    clean = _clean(evidence, {})
    assert isinstance(clean, Evidence)
    return clean


def save(evidence: Evidence, path: Path) -> Path:
    """Write `evidence`, redacted, to `path`: a file where it ends in .json, else a directory. Returns the file."""
    file = path if path.suffix == ".json" else path / CASE_FILE
    document = {"schema": SCHEMA, "written_by": f"ddpdoctor {__version__}", **_clean(_to_builtins(evidence), {})}
    write_atomically(file, msgspec.json.format(msgspec.json.encode(document), indent=1).decode(), private=True)
    return file


def load(path: Path) -> Evidence:
    """The evidence in the case at `path`.

    Raises:
        UsageError: there is no such file, or it is not a case that this version can read; the message says why.
    """
    file = path / CASE_FILE if path.is_dir() else path
    try:
        size = file.stat().st_size
        if size > MAX_CASE_BYTES:
            raise UsageError(f"{file} has {size} bytes; a case has at most {MAX_CASE_BYTES}")
        document = msgspec.json.decode(file.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist", hint="save a case with `--case PATH`") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{file} is not a ddpdoctor case: {error}", hint="save a case with `--case PATH`") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        schema = document.get("schema") if isinstance(document, dict) else None
        said = f'its "schema" is {schema!r}' if schema is not None else 'it has no "schema" key'
        raise UsageError(f"{file} is not a case that this version reads: {said}, expected {SCHEMA!r}")
    return _from_builtins(document, source=str(file))


def write_atomically(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write `content` to `path` so that a reader sees all of it or nothing; directories are made.

    A `private` file that is new is for its owner alone. A link stays a link, and what is no file (`/dev/null`, a named pipe) is
    written to and not replaced.

    Raises:
        DdpdoctorError: the place is read-only, full or not a directory; nothing half-written stays behind.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))  # resolve() raises another error over a circle of links
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode(target, private=private))
        Path(temporary).replace(target)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space there, or give another path" if full else "give a path in a writable directory"
        raise DdpdoctorError(f"cannot write {path}: {error.strerror}", hint=hint) from None


def _mode(path: Path, *, private: bool) -> int:
    """The permissions of the file that is there, which somebody may have chosen, or those of a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o600 if private else 0o666 & ~_umask()


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
    }


def _by_kind(facts: tuple[Any, ...]) -> dict[str, Any]:
    return {type(fact).__name__: msgspec.to_builtins(fact, str_keys=True) for fact in facts}


def _from_builtins(document: Mapping[str, Any], *, source: str) -> Evidence:
    unknown: set[str] = set()
    try:
        shell = msgspec.convert(document, _Document)
        ranks = tuple(
            RankFacts(rank=rank.rank, host=rank.host, facts=_facts(rank.facts, unknown)) for rank in shell.ranks
        )
        job = _facts(shell.job, unknown)
    except ValueError as error:  # of msgspec, or of evidence that does not fit together
        raise UsageError(f"{source} is not a valid case: {error}") from None
    notes = list(shell.notes)
    if unknown:
        notes.append(f"the case holds evidence this version does not know and ignores: {', '.join(sorted(unknown))}")
    return Evidence(
        job=job,
        ranks=ranks,
        missing=tuple(shell.missing),
        notes=tuple(notes),
        undecided=tuple(shell.undecided),
        launched=shell.launched,
        about_job=shell.about_job,
        meta=shell.meta,
    )


def _facts(by_kind: Mapping[str, Any], unknown: set[str]) -> tuple[Any, ...]:
    known = kinds()
    unknown.update(by_kind.keys() - known.keys())
    return tuple(msgspec.convert(value, known[name], str_keys=True) for name, value in by_kind.items() if name in known)


class _Rank(msgspec.Struct):
    rank: int
    host: str
    facts: dict[str, Any]


class _Document(msgspec.Struct):
    launched: bool = True
    about_job: bool = False
    meta: dict[str, str] = {}
    job: dict[str, Any] = {}
    ranks: list[_Rank] = []
    missing: list[Missing] = []
    notes: list[str] = []
    undecided: list[str] = []


def _clean(value: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401 - evidence of any kind
    """`value`, evidence or JSON, redacted; itself where there is nothing to redact. `seen` holds what is shared."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redact_text(value)
    if isinstance(value, _HARMLESS):
        return value
    if id(value) not in seen:
        seen[id(value)] = _clean_container(value, seen)
    return seen[id(value)]


def _clean_container(value: Any, seen: dict[int, Any]) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        return {
            key: REDACTED if isinstance(item, str) and names_a_secret(str(key)) else _clean(item, seen)
            for key, item in value.items()
        }
    if isinstance(value, tuple | list):
        if all(issubclass(kind, _HARMLESS) for kind in set(map(type, value))):
            return value
        items = [_clean(item, seen) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        before = {field.name: getattr(value, field.name) for field in fields(value)}
        after = {
            name: REDACTED if isinstance(item, str) and names_a_secret(name) else _clean(item, seen)
            for name, item in before.items()
        }
        return value if all(map(is_, after.values(), before.values())) else replace(value, **after)
    return value

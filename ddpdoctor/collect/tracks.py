"""Reads what the agents in the ranks wrote down about their replicas."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import zlib
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ddpdoctor.evidence import RankFacts
from ddpdoctor.evidence.track import (
    EpochSeen,
    EvaluationSeen,
    Gradient,
    Left,
    Line,
    OverflowSeen,
    StepSeen,
    Table,
    TensorKind,
    Track,
    UnwaitedSeen,
)

MOST_INDEX_BYTES = 1 << 27


def read_tracks(directory: Path) -> tuple[RankFacts, ...]:
    """One `Track` a rank, from the files in `directory`; a last line that a rank did not finish is left out."""
    found = {}
    for file in sorted(directory.glob("*.sync.jsonl"), key=lambda path: path.stat().st_mtime):
        entries = list(_entries(file))
        who = next((entry for entry in entries if entry["event"] == "rank"), None)
        if who is not None and isinstance(who.get("rank"), int):
            found[who["rank"]] = RankFacts(rank=who["rank"], host=str(who["host"]), facts=(_track(who, entries),))
    return tuple(found[rank] for rank in sorted(found))


def _entries(file: Path) -> Sequence[dict[str, Any]]:
    found = []
    for line in file.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and "event" in entry:
                found.append(entry)
    return found


def _track(who: Mapping[str, Any], entries: Sequence[dict[str, Any]]) -> Track:
    by_event: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        by_event.setdefault(entry["event"], []).append(entry)
    wraps = by_event.get("wrapping", [])
    end = (by_event.get("end") or [{}])[-1]
    tables = _tables(by_event.get("table", []))
    lines = [entry.get("line") for entry in by_event.get("wrap", [])]
    return Track(
        method=who["method"],
        every=who["every"],
        kinds=tuple(_kind(place, *row) for place, wrap in enumerate(wraps) for row in wrap["structure"]),
        wrap_lines=tuple(map(_line, lines)),
        models=len(wraps),
        start=_start(entries),
        left=tuple(Left(step=entry["step"], weights=entry["key"]) for entry in by_event.get("left", [])),
        tables=tables,
        steps=tuple(_step(entry) for entry in by_event.get("step", [])),
        epochs=tuple(_epoch(entry) for entry in by_event.get("epoch", [])),
        evaluations=tuple(
            EvaluationSeen(**{**_plain(entry), "line": _line(entry["line"])})
            for entry in by_event.get("evaluation", [])
        ),
        overflows=tuple(
            OverflowSeen(**{**_plain(entry), "line": _line(entry["line"])}) for entry in by_event.get("overflow", [])
        ),
        unwaited=tuple(
            UnwaitedSeen(**{**_plain(entry), "line": _line(entry["line"])}) for entry in by_event.get("unwaited", [])
        ),
        steps_made=end.get("steps"),
        forwards_made=end.get("forwards"),
        interval=end.get("interval", 1),
        spent_seconds=end.get("spent", 0.0),
        seconds=end.get("seconds", 0.0),
    )


def _start(entries: Sequence[dict[str, Any]]) -> str | None:
    """The table of the weights when the last model was wrapped that was wrapped before any step."""
    since_wrapped = itertools.dropwhile(lambda entry: entry["event"] != "wrap", entries)
    before = itertools.takewhile(lambda entry: entry["event"] != "step", since_wrapped)
    starts = [entry["key"] for entry in before if entry["event"] == "table" and entry["phase"] == "start"]
    return starts[-1] if starts else None


def _kind(model: int, role: str, name: str, structure: dict[str, Any], tied_to: str) -> TensorKind:
    said = {key: str(value) for key, value in structure.items()}
    return TensorKind(
        role=role,
        name=f"model{model + 1}:{name}" if model else name,
        structure={**said, "ties": f"tied to {tied_to}" if tied_to else "not tied"},
    )


def _tables(entries: Sequence[dict[str, Any]]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    names: list[str] = []
    for entry in entries:
        names = entry["names"] if entry["names"] is not None else names
        digests = entry["digests"]
        tables[entry["key"]] = Table(
            digests={name: digests[16 * place : 16 * place + 16] for place, name in enumerate(names)},
            samples={
                name: tuple((offset, value) for offset, value in sample)
                for name, sample in zip(names, entry["samples"], strict=True)
            },
            shapes={name: tuple(shape) for name, shape in zip(names, entry["shapes"], strict=True)},
        )
    return tables


def _step(entry: dict[str, Any]) -> StepSeen:
    plain = _plain(entry)
    names = list(plain.pop("gradients", {}).items())
    columns = [plain.pop(column, []) for column in ("projected", "local", "counts", "managed")]
    plain.pop("closure", None)
    position = plain.get("position")
    return StepSeen(
        **{
            **plain,
            "line": _line(plain.get("line")),
            "lines": _lines(plain.get("lines", {})),
            "bypassed": _lines(plain.get("bypassed", {})),
            "origins": _lines(plain.get("origins", {})),
            "comm_hook": _line(plain.get("comm_hook")),
            "setting_lines": {name: _line(line) for line, names in plain.get("setting_lines", ()) for name in names},
            "loaded": _line(plain.get("loaded")),
            "writes": {
                what: tuple(Line(file=file, line=line, function=function) for file, line, function in lines)
                for what, lines in plain.get("writes", {}).items()
            },
            "random": tuple(plain.get("random", ())),
            "parts_before": _parts(plain.get("parts_before", {})),
            "parts": _parts(plain.get("parts", {})),
            "position": tuple(position[1:]) if position else None,
            "loss": None if plain.get("loss") is None else float(plain["loss"]),
        },
        gradients={
            name: Gradient(
                digest=digest, reduced=_number(reduced), local=None if local is None else _number(local), count=count,
                standing=standing,
            )
            for (name, digest), reduced, local, count, standing in zip(names, *columns, strict=True)
        },
    )  # fmt: skip


def _epoch(entry: dict[str, Any]) -> EpochSeen:
    packed = entry.pop("indices")
    indices = None
    if packed is not None:
        numbers = array("q")
        numbers.frombytes(zlib.decompressobj().decompress(base64.b64decode(packed), MOST_INDEX_BYTES))
        indices = tuple(numbers)
    return EpochSeen(**{**_plain(entry), "indices": indices, "line": _line(entry["line"])})


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "event"}


def _line(line: Any) -> Line | None:  # noqa: ANN401 - JSON
    return None if line is None else Line(file=line[0], line=line[1], function=line[2])


def _lines(lines: dict[str, Any]) -> dict[str, Line]:
    return {what: Line(file=line[0], line=line[1], function=line[2]) for what, line in lines.items()}


def _parts(parts: dict[str, Any]) -> dict[str, tuple[int, str]]:
    return {name: (part[0], part[1]) for name, part in parts.items()}


def _number(text: str) -> float:
    return float.fromhex(text) if "x" in text else float(text)

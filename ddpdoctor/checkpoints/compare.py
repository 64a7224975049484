"""Checkpoints of several ranks to one comparison: fingerprints first, one file at a time, then the tensors that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ddpdoctor.analysis.replicas.comparison import order_difference, sides_of, structure_differences
from ddpdoctor.checkpoints.notes import remarks
from ddpdoctor.checkpoints.open_checkpoint import open_checkpoint
from ddpdoctor.checkpoints.optimizer_param_names import owned, owners
from ddpdoctor.checkpoints.ranks import by_rank
from ddpdoctor.checkpoints.reader import Stored, UnreadableError
from ddpdoctor.checkpoints.tensor_table import CheckpointEntries, Row, listing, row_major
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.checkpoints import Checkpoints
from ddpdoctor.evidence.replicas import ROLES, Role, Side, StructureDifference, ValueDifference
from ddpdoctor.replicas.tensor_diff import spread_of

Listings = Mapping[int, CheckpointEntries]
Name = tuple[Role, str]


def compare_checkpoints(paths: Sequence[Path], *, tolerance: float = 0.0) -> Evidence:
    """What differs between the checkpoints at `paths`, and what of it by more than `tolerance`.

    A file that cannot be read is named in `undecided`, and the others are compared without it.

    Raises:
        UsageError: fewer than two of them can be read.
    """
    real = Counter(path.resolve() for path in paths)
    twice = [path for path in paths if real[path.resolve()] > 1]
    if twice:
        raise UsageError(f"{twice[0]} is given twice", hint="give each rank's own checkpoint")
    files, origin = by_rank(paths)
    tables: dict[int, CheckpointEntries] = {}
    refused: list[str] = []
    for rank, path in files.items():
        found = _read(path)
        if isinstance(found, CheckpointEntries):
            tables[rank] = found
        else:
            refused.append(found)
    if len(tables) < 2:
        raise UsageError(
            "; ".join(refused) or f"{paths[0]} is one checkpoint: there is nothing to compare it with",
            hint="give one checkpoint for each rank: ddpdoctor verify-sync rank0.pt rank1.pt ...",
        )
    compared = _compared(tables, {rank: files[rank] for rank in tables}, tolerance)
    return Evidence(job=(compared,), notes=(origin, *remarks(tables, files, compared)), undecided=tuple(refused))


def _read(path: Path) -> CheckpointEntries | str:
    """The table of one checkpoint, or the sentence that says why there is none."""
    try:
        return listing(path)
    except UnreadableError as error:
        return f"{path} {error}"


def _compared(tables: Listings, files: Mapping[int, Path], tolerance: float) -> Checkpoints:
    first = next(iter(tables.values()))
    everywhere = [role for role in ROLES if all(table.has(role) for table in tables.values())]
    keys = [
        (role, name)
        for role in everywhere
        for name in dict.fromkeys(name for table in tables.values() for part, name in table.rows if part == role)
    ]
    structure, same = _structure(tables, keys)
    values, within, largest = _values(tables, files, same, tolerance)
    known = owners(first)
    tensors = [row for row in first.rows.values() if row.shape is not None]
    return Checkpoints(
        files=tuple((rank, str(path)) for rank, path in files.items()),
        tensors=len(tensors), bytes=sum(row.bytes for row in tensors),
        compared={role: sum(key[0] == role for key in same) for role in ROLES},
        structure=(*(replace(one, name=owned(one.name, known)) for one in structure), *_order(tables)),
        values=tuple(replace(value, name=owned(value.name, known)) for value in values),
        tolerance=tolerance, within=within, largest=largest,
    )  # fmt: skip


def _structure(tables: Listings, keys: Sequence[Name]) -> tuple[list[StructureDifference], list[Name]]:
    """What is not the same kind of thing in all files, and the names of what is."""
    different: list[StructureDifference] = []
    for role in dict.fromkeys(role for role, _ in keys):
        kinds = {
            rank: {name: _aspects(row) for (part, name), row in table.rows.items() if part == role}
            for rank, table in tables.items()
        }
        different += structure_differences(role, kinds)
    changed = {(one.role, one.name) for one in different}
    return different, [key for key in keys if key not in changed]


def _aspects(row: Row) -> dict[str, str]:
    return {"dtype": row.dtype, "shape": str(list(row.shape or ()))}


def _order(tables: Listings) -> list[StructureDifference]:
    """The first name that stands elsewhere, among the files whose format keeps the order of the model."""
    orders = {
        rank: [name for part, name in table.rows if part == "parameter"]
        for rank, table in tables.items()
        if table.ordered
    }
    found = order_difference("parameter", orders)
    return [found] if found is not None else []


def _values(
    tables: Listings, files: Mapping[int, Path], keys: Sequence[Name], tolerance: float
) -> tuple[list[ValueDifference], int, float]:
    """What differs; the first of each role is located to the element, every one where a tolerance must be judged."""
    found: list[ValueDifference] = []
    opened: dict[int, Stored] = {}
    within, largest = 0, 0.0
    for role, name in keys:
        rows = {rank: table.rows[role, name] for rank, table in tables.items()}
        if len({row.says for row in rows.values()}) == 1:
            continue
        plain = next(iter(rows.values())).shape is None
        sides = sides_of({rank: row.says for rank, row in rows.items()})
        difference = ValueDifference(role=role, name=name, sides=sides if plain else _silent(sides))
        if not plain and (tolerance or all(other.role != role for other in found)):
            difference, gap = _located(difference, files, rows, opened)
            if tolerance and gap <= tolerance:
                within, largest = within + 1, max(largest, gap)
                continue
        found.append(difference)
    return found, within, largest


def _located(
    difference: ValueDifference, files: Mapping[int, Path], rows: Mapping[int, Row], opened: dict[int, Stored]
) -> tuple[ValueDifference, float]:
    """The difference with its worst element, and the largest gap; one file of each side is read."""
    ranks = [side.ranks[0] for side in difference.sides]
    for rank in ranks:
        if rank not in opened:
            opened[rank] = open_checkpoint(files[rank])
    tensors = [row_major(opened[rank].tensor(rows[rank].path)) for rank in ranks]
    if tensors[0].layout is not torch.strided:
        return difference, float("inf")
    spread = spread_of(tensors)
    texts = spread.element.values if spread.element else ("",) * len(tensors)
    sides = tuple(replace(side, says=says) for side, says in zip(difference.sides, texts, strict=True))
    located = replace(difference, sides=sides, element=spread.element, extent=spread.extent, kind=spread.kind)
    return located, spread.gap


def _silent(sides: Sequence[Side]) -> tuple[Side, ...]:
    return tuple(Side(ranks=side.ranks) for side in sides)

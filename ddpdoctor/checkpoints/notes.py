"""What a reader should know of a comparison beside its findings: what was left out, and what else differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ddpdoctor.analysis.replicas.comparison import sides_of
from ddpdoctor.checkpoints.tensor_table import CheckpointEntries, Key
from ddpdoctor.evidence.checkpoints import Checkpoints
from ddpdoctor.evidence.replicas import Role
from ddpdoctor.messages.replicas import sides_sentence, tolerance_sentence

CALLED: dict[Role, str] = {
    "parameter": "model tensors",
    "buffer": "BatchNorm statistics",
    "optimizer state": "optimizer state",
}
SHOWN = 4  # entries or files


def remarks(tables: Mapping[int, CheckpointEntries], files: Mapping[int, Path], compared: Checkpoints) -> Iterator[str]:
    """One sentence each."""
    for prefix in ("module.", "_orig_mod."):
        having = [str(files[rank]) for rank, table in tables.items() if prefix in table.prefixes]
        if having:
            yield f"names are compared without the prefix {prefix} that they have in {_some(having)}"
    for role, called in CALLED.items():
        having = [str(files[rank]) for rank, table in tables.items() if table.has(role)]
        if 0 < len(having) < len(tables):
            yield f"{called} not compared: only in {_some(having)}"
    own = _names(tables, "own")
    if own:
        yield f"not compared, because each rank may have its own: {_some([name for _, name in own])}"
    sharded = max(table.sharded for table in tables.values())
    if sharded:
        yield f"not compared: {sharded} sharded tensors, of which each file holds a different part"
    differing = [key for key in _names(tables, "other") if len(set(_said(tables, key).values())) > 1]
    if differing:
        yield f"also different, beside model and optimizer: {_some([_entry(tables, key) for key in differing])}"
    if compared.tolerance:
        yield tolerance_sentence(compared.tolerance, compared.within, compared.largest)


def _names(tables: Mapping[int, CheckpointEntries], part: str) -> list[Key]:
    return list(dict.fromkeys(key for table in tables.values() for key in table.rows if key[0] == part))


def _entry(tables: Mapping[int, CheckpointEntries], key: Key) -> str:
    """`epoch (3 on rank 0 and 4 on rank 1)`, or the name alone where it is a tensor."""
    rows = [table.rows.get(key) for table in tables.values()]
    if any(row is not None and row.shape is not None for row in rows):
        return key[1]
    return f"{key[1]} ({sides_sentence(sides_of(_said(tables, key)))})"


def _said(tables: Mapping[int, CheckpointEntries], key: Key) -> dict[int, str]:
    rows = {rank: table.rows.get(key) for rank, table in tables.items()}
    return {rank: "absent" if row is None else row.says[:60] for rank, row in rows.items()}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")

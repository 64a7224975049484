"""How many sends and receives a dump tells that a rank has issued, those that its ring buffer has lost included."""

from __future__ import annotations

from typing import Any

import pytest

from ddpdoctor.ranks.fr_parser import record_of


def _entry(name: str, collective: int, batch: int, issued: int, *, done: bool = True) -> dict[str, Any]:
    between = name.startswith(("send", "recv", "coalesced"))
    return {
        "frames": [],
        "record_id": 50 + issued,
        "pg_id": 1,
        "process_group": ("1", "PIPELINE"),
        "collective_seq_id": collective,
        "p2p_seq_id": batch,
        "op_id": issued,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": 1_800_000_000_000_000_000 + issued,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": between,
    }


@pytest.mark.parametrize(
    ("entries", "halves"),
    [
        ([("recv 0<-1", 3, 7, 21), ("coalesced", 3, 7, 21), ("all_reduce", 4, 7, 22), ("send 0->1", 4, 8, 23)], 19),
        ([("all_reduce", 4, 0, 4)], None),
    ],
)
def test_halves_are_operations_without_collectives(
    entries: list[tuple[str, int, int, int]], halves: int | None
) -> None:
    document = {"version": "2.10", "entries": [_entry(*one) for one in entries]}
    assert record_of(document).groups[0].halves == halves


def test_a_recorder_without_this_count_tells_nothing() -> None:
    entries = [_entry("send 0->1", 0, 1, 1)]
    del entries[0]["op_id"]
    assert record_of({"version": "2.4", "entries": entries}).groups[0].halves is None

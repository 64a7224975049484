"""Ranks that leave the same call out, each in a group of its own with the same part in the job, are one finding."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

REPLICAS, SHARDS = 4, 2
WORLD = REPLICAS * SHARDS


def rank_of(rank: int, out: int) -> FlightRecord:
    """Both ranks of replica `out` leave the last reduction of their groups out and wait for all others, which queued both."""
    shard = rank % SHARDS
    members = tuple(range(shard, WORLD, SHARDS))
    reduction = Did("all_reduce", group=f"dp{shard}", members=members)
    made = [reduction, STEP] * 2
    last = [STEP] if rank // SHARDS == out else [reduction, STEP]
    found = record([*made, *map(waits, last)], world=WORLD, waited=500.0)
    groups = (replace(group, description=group.name[:2]) for group in found.groups)
    return replace(found, groups=tuple(groups))


def test_all_ranks_of_a_replica_that_left_a_reduction_out_are_named() -> None:
    for out in (0, REPLICAS - 1):
        (finding,) = diagnose(flights(*(rank_of(rank, out) for rank in range(WORLD)))).findings
        assert (finding.code, finding.ranks) == ("DDP305", (SHARDS * out, SHARDS * out + 1))


def test_two_stages_that_do_not_send_are_one_finding() -> None:
    send = Did("send", peers=(0, 1))
    first = {rank: replace(send, group=f"pp{rank}", members=(rank, rank + 2)) for rank in (0, 1)}
    receiving = {rank: [STEP, waits(replace(first[rank - 2], op="recv"))] for rank in (2, 3)}
    (finding,) = diagnose(flights([STEP], [STEP], receiving[2], receiving[3])).findings
    assert (finding.code, finding.ranks) == ("DDP313", (0, 1))
    assert finding.message.startswith(
        "rank 2 waits in recv from rank 0, which did not send; rank 3 waits in recv from rank 1"
    )

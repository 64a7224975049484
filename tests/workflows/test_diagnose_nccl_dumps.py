"""Dumps as NCCL's recorder writes them, of every version, and jobs that use it in every way: read from files, and judged."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor import case
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.ranks import StepCount
from ddpdoctor.model import Report
from ddpdoctor.workflows.diagnose import gather

START_NS = 1_800_000_000_000_000_000
TRAIN = "/home/me/job/train.py"
# what came after 2.0, roughly the youngest first: the reader goes by the fields that are there, not by the version
LATER_FIELDS = (
    ("thread_id", "thread_name"),
    ("timeout_ms",),
    ("is_p2p",),
    ("input_dtypes", "output_dtypes"),
    ("op_id",),
    ("p2p_seq_id",),
)


@dataclass(frozen=True, kw_only=True)
class IssuedCall:
    """One call of one rank, at a line of train.py; `number` where it is not one more than the last of its group."""

    op: str = "all_reduce"
    line: int = 61
    inputs: tuple[tuple[int, ...], ...] = ((1000,),)
    outputs: tuple[tuple[int, ...], ...] = ((1000,),)
    group: int = 0
    number: int | None = None
    done: bool = True


STEP, WAITS = IssuedCall(), IssuedCall(done=False)


def dump(
    calls: Sequence[IssuedCall], members: dict[int, Sequence[int]], *, first: int = 0, version: str = "2.10"
) -> dict[str, Any]:
    """The document of one rank; the ring has lost the calls before number `first`."""
    counts: dict[tuple[int, bool], int] = {}
    entries = []
    for number, call in enumerate(calls):
        p2p = call.op.startswith(("send", "recv"))
        key = (call.group, p2p)
        counts[key] = counts.get(key, 0) + 1 if call.number is None else call.number
        entries.append(_entry(call, number, counts.get((call.group, False), 0), counts.get((call.group, True), 0), p2p))
    return {
        "version": version,
        "comm_lib_version": "2.28.9",
        "nccl_comm_state": {},
        "pg_config": {str(group): {"name": str(group), "ranks": str([*ranks])} for group, ranks in members.items()},
        "pg_status": {},
        "entries": entries[first:],
    }  # fmt: skip


def _description(group: int) -> str:
    return "default_pg" if group == 0 else "undefined"


def _entry(call: IssuedCall, number: int, seq: int, p2p_seq: int, p2p: bool) -> dict[str, Any]:
    created = START_NS + number * 10**8
    return {
        "frames": [
            {"name": "f", "filename": "/opt/venv/lib/python3.11/site-packages/torch/x.py", "line": 9},
            {"name": "train", "filename": TRAIN, "line": call.line},
        ],
        "record_id": number,
        "pg_id": call.group,
        "process_group": (str(call.group), _description(call.group)),
        "thread_name": "python",
        "thread_id": "140545539951488",
        "collective_seq_id": seq,
        "p2p_seq_id": p2p_seq,
        "op_id": number + 1,
        "profiling_name": f"nccl:{call.op}",
        "time_created_ns": created,
        "input_sizes": [[*sizes] for sizes in call.inputs],
        "input_dtypes": ["Float"] * len(call.inputs),
        "output_sizes": [[*sizes] for sizes in call.outputs],
        "output_dtypes": ["Float"] * len(call.outputs),
        "state": "completed" if call.done else "scheduled",
        "time_discovered_started_ns": created + 1 if call.done else None,
        "time_discovered_completed_ns": created + 2 if call.done else None,
        "retired": call.done,
        "timeout_ms": 600_000,
        "is_p2p": p2p,
    }


def write(folder: Path, documents: Sequence[dict[str, Any] | None]) -> Path:
    """The dumps of a job in a folder; None for a rank that left none."""
    for rank, document in enumerate(documents):
        if document is not None:
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(document, 2))
    return folder


def judged(*paths: Path) -> Report:
    return diagnose(gather(paths))


def told(report: Report) -> list[tuple[str, tuple[int, ...], str]]:
    return [
        (finding.code, finding.ranks, finding.message) for finding in report.findings if finding.explained_by is None
    ]


def world(size: int) -> dict[int, Sequence[int]]:
    return {0: range(size)}


def mismatch() -> list[list[IssuedCall]]:
    """Rank 2 of four broadcasts where the others reduce."""
    other = IssuedCall(op="broadcast", line=70, done=False)
    return [[STEP, STEP, other if rank == 2 else WAITS] for rank in range(4)]


SAYS = "rank 2 called broadcast #3 where ranks 0-1,3 called all_reduce #3"


@pytest.mark.parametrize("minor", range(11))
def test_every_version_gives_the_verdict_and_its_lines(minor: int, tmp_path: Path) -> None:
    documents = [dump(calls, world(4), version=f"2.{minor}") for calls in mismatch()]
    for document in documents:
        for entry in document["entries"]:
            for fields in LATER_FIELDS[: 10 - minor]:
                for field in fields:
                    entry.pop(field, None)
            if minor == 0:
                entry["seq_id"] = entry.pop("collective_seq_id")
        if minor < 2:
            del document["pg_config"], document["pg_status"]
    report = judged(write(tmp_path, documents))
    assert told(report) == [("DDP301", (2,), SAYS)]
    assert (report.findings[0].where[0].file, report.findings[0].where[0].line) == (TRAIN, 70)


def test_a_pickle_that_somebody_turned_into_json_keeps_its_lines(tmp_path: Path) -> None:
    for rank, calls in enumerate(mismatch()):
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps(dump(calls, world(4))))
    report = judged(tmp_path)
    assert told(report) == [("DDP301", (2,), SAYS)]
    assert {place.line for place in report.findings[0].where} == {61, 70}


def test_rings_that_wrapped_at_different_places_are_compared_by_number(tmp_path: Path) -> None:
    calls = [[STEP] * 30 + made for made in mismatch()]
    documents = [dump(made, world(4), first=first) for made, first in zip(calls, (0, 29, 17, 5), strict=True)]
    assert told(judged(write(tmp_path, documents))) == [("DDP301", (2,), SAYS.replace("#3", "#33"))]


def test_a_rank_without_a_dump_is_said_to_have_none_and_is_not_accused(tmp_path: Path) -> None:
    documents = [dump(calls, world(4)) for calls in mismatch()]
    report = judged(write(tmp_path, [documents[0], None, *documents[2:]]))
    assert told(report) == [("DDP301", (2,), SAYS.replace("0-1,3", "0,3"))]


def test_coalesced_calls_share_a_number_and_a_healthy_job_that_makes_them_gets_silence(tmp_path: Path) -> None:
    coalesced = [
        IssuedCall(op="all_reduce", number=1),
        IssuedCall(op="all_gather", number=1),
        IssuedCall(op="coalesced", number=1, inputs=(), outputs=()),
    ]
    last = IssuedCall(number=2)
    assert told(judged(write(tmp_path, [dump([*coalesced, last], world(2))] * 2))) == []


def test_a_different_call_among_coalesced_ones_is_named(tmp_path: Path) -> None:
    def made(op: str) -> list[IssuedCall]:
        return [STEP, IssuedCall(number=2), IssuedCall(op=op, number=2, line=75, done=False)]

    documents = [dump(made("reduce_scatter" if rank == 1 else "all_gather"), world(3)) for rank in range(3)]
    ((code, ranks, _),) = told(judged(write(tmp_path, documents)))
    assert (code, ranks) == ("DDP301", (1,))


def test_a_receive_that_nobody_sends_to_is_named_and_its_pairs_are_not(tmp_path: Path) -> None:
    pair = [IssuedCall(op="send 0->1", line=80)], [IssuedCall(op="recv 1<-0", line=82)]
    healthy = [dump([*pair[0], STEP], world(2)), dump([*pair[1], STEP], world(2))]
    assert told(judged(write(tmp_path, healthy))) == []
    sick = [
        dump([*pair[0], WAITS], world(2)),
        dump([*pair[1], IssuedCall(op="recv 1<-0", line=83, done=False)], world(2)),
    ]
    ((code, ranks, message),) = told(judged(write(tmp_path, sick)))
    assert (code, ranks) == ("DDP313", (0,))
    assert "rank 1 waits in recv from rank 0, which did not send" in message


def test_among_many_groups_the_sick_one_is_told_by_name(tmp_path: Path) -> None:
    pairs = {1 + first // 2: (first, first + 1) for first in range(0, 64, 2)}
    documents = []
    for rank in range(64):
        own = 1 + rank // 2
        op = "broadcast" if rank == 41 else "all_reduce"
        calls = [STEP, IssuedCall(group=own), IssuedCall(group=own, op=op, line=70 + rank % 2, done=own != 21)]
        documents.append(dump(calls, {**world(64), own: pairs[own]}))
    ((code, ranks, message),) = told(judged(write(tmp_path, documents)))
    assert (code, ranks) == ("DDP301", (40, 41))
    assert "group 21" in message


@pytest.mark.parametrize(
    "calls",
    [
        [IssuedCall(op="all_gather", inputs=((own,),), outputs=((4,), (6,))) for own in (4, 6)],
        [IssuedCall(op="reduce_scatter", inputs=((4,), (6,)), outputs=((own,),)) for own in (4, 6)],
        [IssuedCall(op="all_to_all", inputs=((own,),), outputs=((10 - own,),)) for own in (4, 6)],
    ],
    ids=["all_gather", "reduce_scatter", "all_to_all"],
)
def test_uneven_sizes_are_legal(calls: list[IssuedCall], tmp_path: Path) -> None:
    assert told(judged(write(tmp_path, [dump([STEP, call, STEP], world(2)) for call in calls]))) == []


def test_a_log_the_dumps_and_a_case_give_one_cause_with_its_symptoms_folded(tmp_path: Path) -> None:
    write(tmp_path, [dump([STEP, WAITS], world(3)), dump([STEP], world(3)), dump([STEP, WAITS], world(3))])
    (tmp_path / "slurm-7.out").write_text(
        "0: step 1\n1: step 1\n2: step 1\n1: Traceback (most recent call last):\n"
        f"1:   File \"{TRAIN}\", line 88, in load\n1: KeyError: 'shard 1'\n"
        "0: RuntimeError: [/x/gloo/pair.cc:1] Connection closed by peer [127.0.0.1]:1\n"
    )
    case.save(Evidence(ranks=(RankFacts(rank=1, host="node-b", facts=(StepCount(steps=1),)),)), tmp_path / "saved")
    report = judged(tmp_path)
    assert told(report) == [("DDP401", (1,), "rank 1 raised KeyError: 'shard 1'")]
    assert (report.findings[0].where[0].file, report.findings[0].where[0].line) == (TRAIN, 88)


def test_one_hostile_file_among_good_ones_is_refused_and_the_rest_judged(tmp_path: Path) -> None:
    write(tmp_path, [dump(calls, world(4)) for calls in mismatch()])
    (tmp_path / "nccl_trace_rank_1").write_bytes(b"\x80\x02cposix\nsystem\nX\x10\x00\x00\x00touch /tmp/pwned\x85R.")
    report = judged(tmp_path)
    assert [(code, ranks) for code, ranks, _ in told(report)] == [("DDP301", (2,))]
    assert any("it asks for posix.system, which no dump needs: it is refused" in note for note in report.notes)

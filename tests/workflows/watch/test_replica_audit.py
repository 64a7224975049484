"""Replicas under `watch --verify-sync`: compared while they train, told once, and held in little memory."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.schema import model_records, step_records
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.workflows.watch import judging_process, replica_audit
from ddpdoctor.workflows.watch.replica_audit import ReplicaAudit
from tests.training_traces import TracedRank, traced_ranks

SEGMENT_SECONDS = 1e-9
DEADLINE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_audit, "POLL_SECONDS", 0.0)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[list[TracedRank]]:
    with traced_ranks(tmp_path, segment_seconds=SEGMENT_SECONDS) as make:
        yield [make(0), make(1)]


def test_equal_replicas_are_compared_and_forgotten(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    for number in range(500):
        for rank in ranks:
            rank.step(number)
        if number % 10 == 9:
            assert audit.look([rank.process for rank in ranks]) is None
    assert audit.compared == 500
    assert not audit._open


def test_replicas_that_part_are_told_once(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    found = []
    for number in range(60):
        ranks[0].step(number)
        ranks[1].step(number, after="" if number < 40 else f"other weights {number}")
        found.append(audit.look([rank.process for rank in ranks]))
    told = [number for number, evidence in enumerate(found) if evidence is not None]
    assert told == [40]
    evidence = found[40]
    assert evidence is not None
    assert [finding.code for finding in diagnose(evidence).findings] == ["DDP503"]


def test_the_first_divergence_is_kept_while_the_job_goes_on(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    told = []
    for number in range(400):
        ranks[0].step(number)
        ranks[1].step(number, after="" if number < 40 else f"other weights {number}")
        if (evidence := audit.look([rank.process for rank in ranks])) is not None:
            told.append(evidence)
    (found,) = diagnose(told[0]).findings
    (later,) = diagnose(Evidence(ranks=audit.facts(), about_job=True)).findings
    assert later.message == found.message


def part(content: int, writes: int, holder: int) -> dict[str, step_records.Part]:
    """One parameter on a device mesh."""
    return {"w": step_records.Part(holder, f"{content:016x}", writes, f"{content:016x}", 32)}


@pytest.mark.parametrize("holders", [(0, 0), (0, 1)], ids=["replicated", "fully sharded"])
def test_a_part_on_a_device_mesh_that_changes_by_itself_is_told_at_once(
    holders: tuple[int, int], ranks: list[TracedRank], tmp_path: Path
) -> None:
    audit = ReplicaAudit(tmp_path)
    found = []
    for number in range(12):
        for rank, holder in zip(ranks, holders, strict=True):
            held, stepped = number * 3, (number + 1) * 3
            flipped = number == 8 and rank is ranks[1]
            before, after = (
                part(held ^ (flipped << 9), number, holder),
                part(stepped ^ (flipped << 9), number + 1, holder),
            )
            rank.step(number, parts=(before, after))
        found.append(audit.look([rank.process for rank in ranks]))
    told = [number for number, evidence in enumerate(found) if evidence is not None]
    assert told == [8]
    evidence = found[8]
    assert evidence is not None
    first = diagnose(evidence).findings[0]
    assert (first.code, first.ranks) == ("DDP525", (1,))


@pytest.mark.parametrize("again", ["b" * 16, "c" * 16], ids=["another kernel", "unstable"])
def test_a_probe_with_other_outputs_is_told_although_the_weights_are_equal(
    again: str, ranks: list[TracedRank], tmp_path: Path
) -> None:
    audit = ReplicaAudit(tmp_path)
    found = []
    for number in range(12):
        ranks[0].probe(number)
        ranks[1].probe(number, **({"outputs": "b" * 16, "again": again} if number >= 8 else {}))
        for rank in ranks:
            rank.step(number)
        found.append(audit.look([rank.process for rank in ranks]))
    (evidence,) = [evidence for evidence in found if evidence is not None]
    assert found.index(evidence) == 8
    assert [finding.code for finding in diagnose(evidence).findings] == ["DDP527"]
    assert audit.compared == 9


@pytest.mark.parametrize("rate", ["0.1", "0.2"], ids=["healthy", "sick"])
def test_now_and_then_another_process_asks_the_rules_although_the_weights_are_equal(
    rate: str, ranks: list[TracedRank], tmp_path: Path
) -> None:
    with closing(ReplicaAudit(tmp_path, _next_judgement=0.0)) as audit:
        for number in range(4):
            ranks[0].step(number)
            ranks[1].step(number, rate=rate)
        found = audit.look([rank.process for rank in ranks])
        until = time.monotonic() + DEADLINE_SECONDS
        while audit._judging.is_running and time.monotonic() < until:
            time.sleep(0.05)
            found = audit.look([rank.process for rank in ranks])
        assert not audit._judging.is_running
    codes = [finding.code for finding in diagnose(found).findings] if found is not None else []
    assert codes == ([] if rate == "0.1" else ["DDP506"])


def judged(audit: ReplicaAudit, ranks: list[TracedRank]) -> list[str]:
    """The codes that are told after a look at `ranks`."""
    with closing(audit):
        found = audit.look([rank.process for rank in ranks])
        until = time.monotonic() + DEADLINE_SECONDS
        while found is None and audit._judging.is_running and time.monotonic() < until:
            time.sleep(0.05)
            found = audit.look([rank.process for rank in ranks])
    return [finding.code for finding in diagnose(found).findings] if found is not None else []


@pytest.mark.parametrize(("other", "codes"), [("b" * 16, ["DDP508"]), ("a" * 16, [])], ids=["sick", "healthy"])
def test_buffers_that_part_are_told_although_the_weights_are_equal(
    other: str, codes: list[str], ranks: list[TracedRank], tmp_path: Path
) -> None:
    for number in range(4):
        ranks[0].step(number, buffers={"mean": "a" * 16})
        ranks[1].step(number, buffers={"mean": other if number > 1 else "a" * 16})
    assert judged(ReplicaAudit(tmp_path), ranks) == codes


@pytest.mark.parametrize(
    ("still", "called", "codes"),
    [(True, True, ["DDP528"]), (True, False, []), (False, True, [])],
    ids=["sick", "only to save it", "healthy"],
)
def test_an_average_that_parts_is_told_where_ranks_use_it(
    still: bool, called: bool, codes: list[str], ranks: list[TracedRank], tmp_path: Path
) -> None:
    for number in range(4):
        for rank in ranks:
            rank.step(number)
            kept = still and rank is ranks[1] and number > 1
            rank.average(number, f"{1 if kept else number:016x}", called=called)
    assert judged(ReplicaAudit(tmp_path), ranks) == codes


def test_what_parts_each_time_anew_is_a_reason_to_ask_less_and_less_often(tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    asked = 0
    for _ in range(1000):
        audit._compare_by_name([{"mean": "a"}, {"mean": "b"}])
        audit._compare_by_name([{"mean": "a"}, {"mean": "a"}])
        asked += audit._is_asked
        audit._is_asked = False
    assert asked == 10


def test_at_how_many_steps_replicas_were_compared(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    processes = [rank.process for rank in ranks]
    assert audit.in_words(processes) == "replicas compared at no step"
    for number in range(6):
        for rank in ranks:
            rank.step(number)
    assert audit.in_words(processes) == "replicas compared at 6 steps"
    assert not audit.in_words(processes[:1])
    ranks[1].leave()
    for number in range(6, 3000):
        ranks[0].step(number)
    assert audit.in_words(processes) == "replicas compared at 6 steps, not after step 6"
    assert len(audit._open) <= replica_audit.MOST_OPEN


def test_the_other_process_ends_with_the_audit(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path, _next_judgement=0.0)
    for rank in ranks:
        rank.step(0)
    audit.look([rank.process for rank in ranks])
    process = audit._judging._process
    assert process is not None
    audit.close()
    assert process.poll() is not None


def test_without_room_for_another_process_that_judgement_is_left_out(
    ranks: list[TracedRank], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def no_room(command: list[str], **_: object) -> None:
        tried.append(command)
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(judging_process, "start_guarded", no_room)
    for rank in ranks:
        rank.step(0)
    with closing(ReplicaAudit(tmp_path, _next_judgement=0.0)) as audit:
        assert audit.look([rank.process for rank in ranks]) is None
        assert len(tried) == 1


def test_steps_that_one_rank_did_not_audit_are_not_kept(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    for number in range(400):
        ranks[0].step(number)
        if number % 8 == 0:
            ranks[1].step(number)
            assert audit.look([rank.process for rank in ranks]) is None
    assert audit.compared == 50
    assert len(audit._open) < 8


def test_an_audit_that_fell_behind_goes_on_with_what_is_left(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    for number in range(400):
        for rank in ranks:
            rank.step(number)
    assert audit.look([rank.process for rank in ranks]) is None
    assert 0 < audit.compared < 100


def test_a_rank_alone_has_nobody_to_be_compared_with(ranks: list[TracedRank], tmp_path: Path) -> None:
    audit = ReplicaAudit(tmp_path)
    ranks[0].step(0)
    assert audit.look([ranks[0].process]) is None
    assert audit.compared == 0


def test_a_trace_that_contradicts_itself_costs_the_comparison_and_not_the_verdict(
    ranks: list[TracedRank], tmp_path: Path
) -> None:
    for rank in ranks:
        rank.step(0)
    ranks[0]._writer.write(model_records.Table("weights", "torn", ["w", "v"], "0" * 16, [], [[2]]))
    with closing(ReplicaAudit(tmp_path)) as audit:
        assert not audit.facts()
        (note,) = audit.notes
    assert note.startswith("the replicas were not judged: the training trace of rank 0 contradicts itself (zip()")

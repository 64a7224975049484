"""Jobs with tensor, pipeline, data and expert parallel groups: one cause, one headline; healthy jobs get silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Finding
from ddpdoctor.workflows.diagnose import gather
from tests.simulated_jobs.cases import (
    JOBS,
    Case,
    Plant,
    called_besides,
    dead,
    frozen,
    healthy,
    left_out,
    lost_dump,
    one_turn_more,
    other_partner,
    other_shape,
    out_of_data,
    stuck,
    together,
    unnoticed,
)
from tests.simulated_jobs.dumps import write
from tests.simulated_jobs.topology import DATA, EXPERT, MODEL, PIPELINE, TENSOR

ACTIVE = {"only_active": True}
WITHOUT_HISTORY = ("DDP307", "DDP319", "DDP408")  # what needs no completed entries


def cases() -> Iterator[tuple[str, Case]]:
    """Every kind of fault in every job, at the first, a middle and the last rank in turns."""
    for number, (name, job) in enumerate(JOBS.items()):
        world = job.topology.world
        culprits = (0, world // 2 + 1, world - 1)
        faults: dict[str, tuple[str, Callable[[int], Plant]]] = {
            "frozen": ("DDP307", lambda rank: frozen(rank, share=0.5)),
            "unnoticed": ("DDP319", lambda rank: unnoticed(rank, share=0.1)),
            "dead": ("DDP408", lambda rank: dead(rank, share=0.9)),
            "left-out": ("DDP305", lambda rank: left_out(rank, TENSOR, -4)),
            "besides": ("DDP305", lambda rank: called_besides(rank, TENSOR, -7)),
            "shape": ("DDP302", lambda rank: other_shape(rank, TENSOR, -7)),
        }
        for place, (fault, (code, plant)) in enumerate(faults.items()):
            rank = culprits[(number + place) % 3]
            options = ACTIVE if (number + place) % 2 and code in WITHOUT_HISTORY else {}
            yield f"{name}-{fault}-{rank}", Case(job=job, plant=plant(rank), code=code, ranks=(rank,), options=options)
        yield f"{name}-stuck", Case(job=job, plant=stuck((TENSOR, DATA, MODEL)[number % 3], world - 1), code="DDP314")
        two = (1, world - 2)
        yield f"{name}-two-frozen", Case(job=job, plant=frozen(*two), code="DDP307", ranks=two, options=ACTIVE)
        yield f"{name}-two-unnoticed", Case(job=job, plant=unnoticed(*two), code="DDP319", ranks=two)


def findings(case: Case, folder: Path, *, waited_seconds: float | None = 600.0) -> tuple[Finding, ...]:
    """What `ddpdoctor diagnose` finds in the dumps of a case."""
    documents = case.documents()
    write(documents, folder, waited_seconds=waited_seconds)
    report = diagnose(gather([folder]))
    assert not report.crashed
    return report.findings


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_one_cause_is_one_headline(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    (finding,) = findings(case, tmp_path)
    assert (finding.code, finding.ranks) == (case.code, case.ranks)


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("options", [{}, ACTIVE], ids=["all entries", "active entries"])
def test_a_job_that_ended_in_order_gets_silence(name: str, options: dict[str, bool], tmp_path: Path) -> None:
    assert not findings(Case(job=JOBS[name], plant=healthy, code=None, options=options), tmp_path)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_moves_gets_silence(name: str, tmp_path: Path) -> None:
    """Dumps of all ranks in the middle of a step, some milliseconds apart."""
    world = JOBS[name].topology.world
    moments = {rank: 3_000_000 + 70_000 * rank for rank in range(world)}
    case = Case(job=JOBS[name], plant=healthy, code=None, options={"at_ns": moments})
    assert not findings(case, tmp_path, waited_seconds=0.5)


def test_a_stuck_link_names_the_group_and_its_members(tmp_path: Path) -> None:
    (finding,) = findings(Case(job=JOBS["dense"], plant=stuck(TENSOR, 9), code="DDP314"), tmp_path)
    assert finding.measured["members"] == [8, 9]
    assert "(TENSOR_MODEL_PARALLEL_GROUP)" in finding.message
    assert any("process groups" in line for line in finding.details)


def test_a_stuck_send_names_its_two_ranks(tmp_path: Path) -> None:
    (finding,) = findings(Case(job=JOBS["wide"], plant=stuck(PIPELINE, 9), code="DDP314"), tmp_path)
    assert finding.measured["members"] == [1, 9]


def test_two_groups_that_are_stuck_at_once_are_one_finding(tmp_path: Path) -> None:
    plant = together(stuck(TENSOR, 1), stuck(TENSOR, 14))
    (finding,) = findings(Case(job=JOBS["dense"], plant=plant, code="DDP314"), tmp_path)
    assert (finding.code, finding.measured["members"]) == ("DDP314", [0, 1, 14, 15])
    assert "nobody is missing, and they do not end" in finding.message


@pytest.mark.parametrize("lost", [0, 3, 12])
def test_a_lost_dump_does_not_outweigh_what_the_others_show(lost: int, tmp_path: Path) -> None:
    plant = together(frozen(9), lost_dump(lost))
    finding, *consequences = findings(Case(job=JOBS["dense"], plant=plant, code="DDP307"), tmp_path)
    assert (finding.code, finding.ranks) == ("DDP307", (9,))
    assert f"rank {lost} left no dump: it is open what happened there" in finding.details
    assert all(one.explained_by is not None for one in consequences)


def test_a_lost_dump_beside_a_stuck_link_is_no_culprit(tmp_path: Path) -> None:
    plant = together(stuck(TENSOR, 9), lost_dump(3))
    finding, *_ = findings(Case(job=JOBS["dense"], plant=plant, code="DDP314"), tmp_path)
    assert (finding.code, finding.measured["members"]) == ("DDP314", [8, 9])


@pytest.mark.parametrize("options", [{}, ACTIVE], ids=["all entries", "active entries"])
@pytest.mark.parametrize("replicas", [(1,), (0,)])
def test_one_of_two_replicas_without_data_is_no_minority(
    replicas: tuple[int, ...], options: dict[str, bool], tmp_path: Path
) -> None:
    """Half of the ranks are at the end of the program: no vote tells that the others are wrong."""
    case = Case(job=JOBS["dense"], plant=out_of_data(*replicas), code=None, options=options)
    for finding in findings(case, tmp_path):
        assert "no majority" in finding.message, finding.message


def test_one_of_four_replicas_without_data_is_named(tmp_path: Path) -> None:
    job = JOBS["large"]
    finding, *_ = findings(Case(job=job, plant=out_of_data(2), code="DDP305"), tmp_path)
    assert finding.ranks == tuple(r for r in range(job.topology.world) if job.topology.coordinates(r)[1] == 2)


@pytest.mark.parametrize("name", ["large", "dense"])
def test_a_rank_that_names_another_partner_is_at_fault_and_not_the_partner(name: str, tmp_path: Path) -> None:
    """Ranks with the same part receive from the next stage; in `dense` there are four of them."""
    job = JOBS[name]
    rank, partner = (job.topology.rank(1, 1, stage) for stage in (1, 3))
    plant = other_partner(rank, partner, -1)
    finding, *_ = findings(Case(job=job, plant=plant, code="DDP313"), tmp_path)
    assert (finding.code, finding.ranks) == ("DDP313", (rank,))
    expected = job.topology.rank(1, 1, 2)
    assert (
        f"called recv from rank {partner} where ranks with the same part in the job have recv from" in finding.message
    )
    assert f"rank {expected} waits in send to rank {rank}" in finding.message


@pytest.mark.parametrize("options", [{}, ACTIVE], ids=["all entries", "active entries"])
def test_two_hosts_that_stop_at_different_places_are_both_named(options: dict[str, bool], tmp_path: Path) -> None:
    """The second one waits for the first with what it has enqueued; its like have enqueued more, and ended no more."""
    plant = together(frozen(2, share=0.2), frozen(12, share=0.5))
    (finding,) = findings(Case(job=JOBS["dense"], plant=plant, code="DDP307", options=options), tmp_path)
    assert (finding.code, finding.ranks) == ("DDP307", (2, 12))


def test_a_rank_that_turns_once_more_is_no_order_of_groups(tmp_path: Path) -> None:
    job = replace(JOBS["dense"], steps=3)
    (finding,) = findings(Case(job=job, plant=one_turn_more(9), code="DDP306"), tmp_path)
    assert (finding.code, finding.ranks) == ("DDP306", (9,))
    assert finding.message.startswith("rank 9 makes one more turn of the loop than its peers and waits in ")


def test_an_uneven_exchange_is_no_mismatch(tmp_path: Path) -> None:
    """Experts give and take different numbers of tokens."""
    (finding,) = findings(
        Case(job=JOBS["mixture"], plant=left_out(9, EXPERT, -4), code="DDP305", options=ACTIVE), tmp_path
    )
    assert (finding.code, finding.ranks) == ("DDP305", (9,))


def test_the_headline_says_how_many_ranks_wait_through_how_many_groups(tmp_path: Path) -> None:
    (finding,) = findings(Case(job=JOBS["dense"], plant=frozen(9), code="DDP307"), tmp_path)
    assert finding.details[0].startswith("15 other ranks wait for it, directly or through others, in ")


def test_a_rank_that_went_on_after_its_dump_is_no_culprit(tmp_path: Path) -> None:
    """Rank 0 left its dump while the job still moved; rank 9 froze later."""
    case = Case(job=JOBS["dense"], plant=frozen(9), code="DDP307", options={"at_ns": {0: 2_000_000}})
    (finding,) = findings(case, tmp_path)
    assert (finding.code, finding.ranks) == ("DDP307", (9,))

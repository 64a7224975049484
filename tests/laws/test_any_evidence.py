"""No check raises on any evidence that the schema admits, and none spends memory by a number that it reads."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.ranks import GroupMembers, JobSize
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State
from ddpdoctor.render import github, json, junit, lines, markdown, text
from tests.fuzz.evidence import changed, evidence

MEMORY = 1 << 30  # beyond what the process has
ANY = settings(deadline=None, suppress_health_check=[*HealthCheck], database=None)


@contextmanager
def memory_at_most(extra: int) -> Iterator[None]:
    """No allocation beyond `extra` bytes more than now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + extra, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def judged(found: Evidence) -> None:
    with memory_at_most(MEMORY):
        report = diagnose(found)
    assert not report.crashed, [(each.rule.code, each.error) for each in report.crashed]
    for render in (text, lines, markdown, github, junit, json):
        assert render.render(report)


@settings(ANY, max_examples=40)
@given(evidence())
def test_no_check_raises_on_any_evidence(found: Evidence) -> None:
    judged(found)


@settings(ANY, max_examples=40)
@given(changed())
def test_no_check_raises_on_evidence_that_is_almost_right(found: Evidence) -> None:
    judged(found)


def test_absurd_numbers_are_refused_where_evidence_is_made() -> None:
    with pytest.raises(ValueError, match="the number of ranks is 1000000000, not between 0 and 262144"):
        JobSize(ranks=10**9)
    with pytest.raises(ValueError, match="the rank is"):
        RankFacts(rank=10**9, host="", facts=())
    with pytest.raises(ValueError, match="columns of a flight record are not equally long"):
        FlightRecord(version="2.10", groups=(), calls=(), seq=(1,))
    absurd = {"RANK": "0", "WORLD_SIZE": str(10**9)}
    assert Launch.from_environ(absurd) is None
    assert Launch.from_environ({"RANK": "0", "WORLD_SIZE": "9" * 5000}) is None
    assert Launch.from_environ({"RANK": "0", "WORLD_SIZE": str(MOST_RANKS)}) is not None


def recorded(rank: int, calls: int) -> RankFacts:
    """A rank whose recorder holds so many calls of the default group."""
    record = FlightRecord(
        version="2.10",
        groups=(ProcessGroup(backend="gloo", name="0", description="default_pg"),),
        calls=(Call(group=0, op="all_reduce"),),
        call=(0,) * calls,
        seq=tuple(range(1, calls + 1)),
        stack=(0,) * calls,
        state=(State.DONE,) * calls,
        created_ns=tuple(range(calls)),
    )
    return RankFacts(rank=rank, host="a", facts=(record,))


@pytest.mark.parametrize("numbers", [(0, 0, 1), (-5, 0, 1)])
def test_no_check_raises_where_ranks_have_one_number_or_a_negative_one(numbers: tuple[int, ...]) -> None:
    judged(Evidence(ranks=tuple(recorded(rank, 3 - at) for at, rank in enumerate(numbers)), about_job=True))


def test_negative_members_are_refused_where_evidence_is_made() -> None:
    with pytest.raises(ValueError, match="the process group 0 has a member with a negative rank"):
        ProcessGroup(backend="nccl", name="0", description="", ranks=(0, -1))
    with pytest.raises(ValueError, match="the process group 0 has a member with a negative rank"):
        GroupMembers(group="0", ranks=(0, -1))

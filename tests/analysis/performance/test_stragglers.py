"""What is not judged: clocks of two hosts, where a rank that seems late may only be ahead of the time, and a short job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddpdoctor.analysis.performance.stragglers import Straggler, Stragglers
from ddpdoctor.checks.ddp601_straggler_rank import check
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.step_times import Pace
from tests.step_times import majority, steps


def test_ranks_of_different_hosts_are_not_compared() -> None:
    evidence = steps(majority, lambda _: {"batch": 30})
    first, second = evidence.ranks
    assert diagnose(evidence).findings
    assert not diagnose(replace(evidence, ranks=(first, replace(second, host="host-b")))).findings


def test_a_slow_rank_is_named_on_its_own_host() -> None:
    evidence = steps(majority, majority, majority, lambda _: {"batch": 30})
    hosts = ("host-a", "host-a", "host-b", "host-b")
    ranks = tuple(replace(facts, host=host) for facts, host in zip(evidence.ranks, hosts, strict=True))
    (finding,) = diagnose(replace(evidence, ranks=ranks)).findings
    assert (finding.code, finding.ranks) == ("DDP601", (3,))


def test_a_step_counts_once_however_many_collectives_it_has() -> None:
    """The ranks come last in turns to all but one, whose waits are the loss."""
    evidence = steps(majority, lambda _: {"batch": 30}, majority, further=6)
    (finding,) = diagnose(evidence, select=["DDP601"]).findings
    assert finding.ranks == (1,)
    assert finding.message.startswith("rank 1 is last into 39 of 40 steps, 30 ms behind; ")
    assert not diagnose(steps(majority, majority, majority, further=6), select=["DDP601"]).findings


def late_once(lines: tuple[int, ...], optimizer_steps: Callable[[int], int]) -> list[str]:
    """What is said of a rank that loses 60 ms in one of four forwards: the line of each and the steps before it as given."""
    evidence = steps(majority, lambda forward: {} if forward % 4 else {"forward": 60}, count=160)
    count = range(160)
    told = {
        "forward_lines": tuple(lines[number % len(lines)] for number in count),
        "forward_steps": tuple(map(optimizer_steps, count)),
    }
    ranks = tuple(
        replace(facts, facts=tuple(replace(one, **told) if isinstance(one, Pace) else one for one in facts.facts))
        for facts in evidence.ranks
    )
    return [one.message for one in diagnose(replace(evidence, ranks=ranks), select=["DDP601"]).findings]


def test_a_step_of_several_forwards_is_one_step() -> None:
    assert late_once((5,), lambda forward: forward // 4)  # accumulated gradients
    assert late_once((5, 5, 5, 9), lambda forward: forward)  # a critic three times, a generator once
    assert not late_once((5,), lambda forward: forward)  # once in four steps: a log, perhaps
    assert not late_once((5,) * 39 + (9,), lambda forward: forward)  # a line of its own in one of forty


def test_a_part_of_a_round_in_which_it_loses_next_to_nothing_is_not_named() -> None:
    (message,) = late_once((5,), lambda forward: forward // 4)
    assert "60 ms behind" in message
    assert "it loses" not in message


def test_peers_never_wait_longer_than_the_job_took() -> None:
    """Most waits are long and the others short: the median times their number would be more than all the time there was."""
    evidence = steps(
        majority, lambda step: {"batch": 5 if step % 3 else 2000} if step < 24 else {"batch": 2000}, count=60
    )
    (finding,) = diagnose(evidence, select=["DDP601"]).findings
    share = finding.measured["share"]
    assert isinstance(share, float)
    assert 0.5 < share < 1


def test_a_job_of_three_seconds_need_not_load_faster() -> None:
    assert not diagnose(steps(*(lambda _: {"input": 200},) * 2, count=15)).findings


def test_of_a_job_that_stands_still_its_pace_is_not_said() -> None:
    stall = Stall(seconds=60.0)
    slow_job = replace(steps(majority, lambda _: {"input": 300}, count=60), job=(stall,))
    assert not diagnose(slow_job, select=["DDP6"]).findings


def test_a_rank_that_a_busy_scheduler_makes_a_little_late_into_each_of_many_calls_is_not_slow() -> None:
    """It lost 255 ms in each step, in sixty collectives: of a forward of FSDP so, too, where it had its processor."""
    spread = Straggler(
        host="node0", rank=1, rounds=33, counted="steps", last_in=31, seconds=0.255, share=0.32, phase=None,
        phase_seconds=None, crowded=0.14, queued=0.22, in_one_round=0.08,
    )  # fmt: skip
    for straggler, slow in ((spread, 0), (replace(spread, in_one_round=0.9), 1), (replace(spread, queued=0.002), 1)):
        assert len([*check(Stragglers(hosts=(straggler,)), None, None, None, None)]) == slow

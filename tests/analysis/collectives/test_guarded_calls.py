"""A forgotten `group=` under a test of the rank is the call that some alone make, and not an order of groups."""

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import CodePlace, Condition, Loop
from ddpdoctor.evidence.stacks import Stacks, Thread
from tests.flight_records import START_NS, STEP, STEP_NS, TORCH, TRAIN, Did, flights, waits

LEADS = Condition(line=69, test="self.rank % 2 == 0", branch=0)
FIRST_NODE, SECOND_NODE = (0, 1), (2, 3)


def hierarchical_mean(
    *conditions: Condition, behind: int = 71, loops: tuple[Loop, ...] = (), later: bool = False
) -> Evidence:
    """The leaders of two nodes call the default group, and the others wait for them in the groups of the nodes.

    The others came there `later`.
    """

    def turns(members: tuple[int, ...], last: Did) -> list[Did]:
        in_group = Did("broadcast", line=behind, group=str(members[0] // 2 + 1), members=members)
        return [STEP, in_group, waits(last if last.op == "all_reduce" else in_group)]

    leads, follows = Did("all_reduce", line=70), Did("broadcast")
    evidence = flights(
        turns(FIRST_NODE, leads),
        turns(FIRST_NODE, follows),
        turns(SECOND_NODE, leads),
        turns(SECOND_NODE, follows),
        backend="gloo",
        code=(
            CodePlace(file=TRAIN, line=70, function="train_step", conditions=conditions, loops=loops),
            CodePlace(file=TRAIN, line=behind, function="train_step", loops=loops),
            CodePlace(file=TRAIN, line=100, function="main"),
        ),
    )
    return replace(
        evidence, ranks=tuple(_later(one) if later and one.rank in (1, 3) else one for one in evidence.ranks)
    )


def _later(facts: RankFacts) -> RankFacts:
    """With a flight recorder whose calls were made a millisecond later."""
    return replace(
        facts,
        facts=tuple(
            replace(fact, created_ns=tuple(at + 1_000_000 for at in fact.created_ns))
            if isinstance(fact, FlightRecord)
            else fact
            for fact in facts.facts
        ),
    )


def test_ranks_that_call_the_default_group_under_a_test_of_the_rank_are_named() -> None:
    """`if self.rank % 2 == 0: dist.all_reduce(value)`: the group of the leaders was forgotten."""
    first, *others = diagnose(hierarchical_mean(LEADS)).findings

    assert (first.code, first.ranks, others) == ("DDP305", (0, 2), [])
    assert first.message == (
        "ranks 0,2 called all_reduce #2 of the default group that ranks 1,3 passed by; they wait for ranks 0,2 in "
        "broadcast #2 of group 1 or broadcast #2 of group 2"
    )
    assert "inside `if self.rank % 2 == 0` (train.py:69)" in first.where[0].note


def test_the_rank_that_returned_above_a_call_of_all_others_left_it_out() -> None:
    """`if rank == 1: return cached`, and a scatter of all ranks below it, whose root alone still waits."""
    returned = Condition(line=66, test="rank == 1", branch=1)
    sent, gathered = Did("broadcast", line=70), Did("all_gather", line=71)
    first_half, second_half = (
        replace(gathered, group=f"{1 + one[0]}", members=one) for one in (FIRST_NODE, SECOND_NODE)
    )
    other = [STEP, second_half, sent, second_half, waits(Did("barrier", line=72))]
    job = flights(
        [STEP, first_half, waits(sent)],
        [STEP, first_half, waits(first_half)],
        other,
        other,
        backend="gloo",
        code=(
            CodePlace(file=TRAIN, line=70, function="train_step", conditions=(returned,)),
            CodePlace(file=TRAIN, line=71, function="train_step"),
            CodePlace(file=TRAIN, line=100, function="main"),
        ),
    )

    first, *others = diagnose(job).findings

    assert (first.code, first.ranks, others) == ("DDP305", (1,), [])


def test_without_the_test_or_with_the_others_above_it_the_order_of_the_groups_is_the_finding() -> None:
    """A rank above the test may come to another branch of it, and call the group there."""
    for evidence in (hierarchical_mean(), hierarchical_mean(LEADS, behind=68)):
        assert diagnose(evidence).findings[0].code == "DDP312"


def test_ranks_that_passed_the_call_by_wait_above_it_in_the_next_turn() -> None:
    loops = (Loop(line=60, head="for step in range(90)"),)
    first = diagnose(hierarchical_mean(LEADS, behind=68, loops=loops, later=True)).findings[0]
    assert (first.code, first.ranks) == ("DDP305", (0, 2))
    for evidence in (
        hierarchical_mean(LEADS, behind=68, loops=loops),  # they may have waited there when the leaders called
        hierarchical_mean(LEADS, behind=68, later=True),
    ):
        assert diagnose(evidence).findings[0].code == "DDP312"


def first_stages_reduce(*conditions: Condition) -> Evidence:
    """Ranks 0 and 2 wait in a reduction of all; ranks 1 and 3 are in the next turn, and wait there for what these send."""
    loops = (Loop(line=60, head="for step in range(90)"),)
    reduces = [STEP, waits(Did("all_reduce", line=70))]
    evidence = flights(
        reduces,
        [STEP],
        reduces,
        [STEP],
        backend="gloo",
        code=(
            CodePlace(file=TRAIN, line=70, function="train_step", conditions=conditions, loops=loops),
            CodePlace(file=TRAIN, line=64, function="train_step", loops=loops),
            CodePlace(file=TRAIN, line=100, function="main"),
        ),
    )
    return replace(evidence, ranks=tuple(_receives(one) if one.rank in (1, 3) else one for one in evidence.ranks))


def _receives(facts: RankFacts) -> RankFacts:
    """With the receive that its agent saw, and the stack of it."""
    place = Frame(file=TRAIN, line=64, function="train_step")
    call = CollectiveCall(
        op="recv", group="0", seq=1, peer=facts.rank - 1, place=place, returned=False, began_ns=START_NS + 3 * STEP_NS
    )
    stacks = Stacks(
        source="py-spy",
        threads=(
            Thread(
                name="MainThread",
                frames=(TORCH, place, Frame(file=TRAIN, line=100, function="main")),
                os_id=1,
                main=True,
                active=False,
                holds_gil=False,
            ),
        ),
    )
    return replace(facts, facts=(*facts.facts, CollectiveCalls(calls=(call,)), stacks))


def test_a_collective_that_some_stages_alone_make_is_named_and_not_the_receive_of_the_others() -> None:
    (first,) = diagnose(first_stages_reduce(Condition(line=69, test="mesh.stage == 0", branch=0))).findings

    assert (first.code, first.ranks) == ("DDP305", (0, 2))
    assert first.message == (
        "ranks 0,2 called all_reduce #2 of the default group that ranks 1,3 passed by; they wait for ranks 0,2 in recv"
    )
    assert "inside `if mesh.stage == 0` (train.py:69)" in first.where[0].note


def test_without_a_condition_the_receive_is_the_finding() -> None:
    assert diagnose(first_stages_reduce()).findings[0].code == "DDP313"

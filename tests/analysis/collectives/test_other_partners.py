"""A rank that sends to, or receives from, another rank than the one rank with its place in another pipeline does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.transfers.other_partners import TransferPartners
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import Did, flights, record, waits

PIPELINES = ((0, 1, 2), (3, 4, 5))


def stage(members: tuple[int, ...], *made: Did) -> FlightRecord:
    """A rank of a pipeline; `peers` of its calls are places in it."""
    own = (replace(one, group=f"p{members[0]}", members=members) for one in made)
    found = record([*own], world=6)
    groups = (replace(group, description="PIPELINE", ranks=members) for group in found.groups)
    return replace(found, groups=tuple(groups))


def batches(members: tuple[int, ...], *each: list[Did]) -> FlightRecord:
    """The first rank of a pipeline, which makes these batches."""
    found = stage(members, *(did for halves in each for did in halves))
    return replace(found, seq=tuple(number for number, halves in enumerate(each, start=1) for _ in halves))


def transfer(op: str, source: int, target: int) -> Did:
    return Did(op, line=80, peers=(source, target))


@pytest.mark.parametrize(
    ("made", "instead"),
    [(transfer("recv", 2, 1), "recv from rank 2"), (transfer("send", 1, 0), "send to rank 0")],
    ids=["another partner", "the other direction"],
)
def test_one_rank_at_the_same_place_tells_who_is_wrong_if_its_partner_waits(made: Did, instead: str) -> None:
    right, wrong = PIPELINES
    forward, onward = transfer("send", 0, 1), transfer("recv", 1, 2)
    healthy = (
        stage(wrong, forward),
        stage(wrong, transfer("recv", 0, 1), transfer("send", 1, 2)),
        stage(wrong, onward),
    )
    sick = (
        stage(right, waits(forward)),
        stage(right, waits(made), waits(transfer("send", 1, 2))),
        stage(right, waits(onward)),
    )
    (finding,) = diagnose(flights(*sick, *healthy)).findings
    assert (finding.code, finding.ranks) == ("DDP313", (1,))
    assert f"rank 1 called {instead} where" in finding.message
    assert "rank 0 waits in send to rank 1" in finding.message


def test_two_ranks_with_its_part_tell_which_half_a_batch_lacks() -> None:
    """A later receive took its place: who waits in the end tells nothing."""
    both = [transfer("send", 0, 1), transfer("recv", 1, 0)]
    whole, lacking = [both, both], [both[:1], both]
    pairs = (0, 1), (2, 3), (4, 5)
    each = [batches(pair, *(lacking if pair == (0, 1) else whole)) for pair in pairs]
    programs = derived(flights(each[0], None, each[1], None, each[2], None), ProgramComparison)
    assert programs is not None
    found = TransferPartners(programs).other_partner(0, entry=2)
    assert found is not None
    assert (found.op, found.expected_op, found.expected_partner, found.agreed) == (None, "recv", 1, True)


def pairs_of_stages(asked: Did) -> list[FlightRecord]:
    """Two pipelines of two stages in the default group, 0 with 2 and 1 with 3, whose rank 3 first asks for `asked`."""
    forward, back = (Did(op, peers=peers) for op, peers in (("send", (0, 2)), ("recv", (2, 0))))
    taken, given = (Did(op, peers=peers) for op, peers in (("recv", (0, 2)), ("send", (2, 0))))
    reduced = [waits(Did("all_reduce", group=f"stage{first}", members=(first, first + 1))) for first in (0, 2)]
    made = (
        [forward, back, reduced[0]],
        [waits(Did("send", peers=(1, 3)))],
        [taken, given, reduced[1]],
        [waits(asked)],
    )
    return [record(one) for one in made]


def test_a_rank_that_names_a_partner_which_exchanges_with_others_alone_is_named_and_not_that_partner() -> None:
    (finding,) = diagnose(flights(*pairs_of_stages(Did("recv", peers=(0, 3))))).findings

    assert (finding.code, finding.ranks) == ("DDP313", (3,))
    assert finding.message == (
        "rank 3 called recv from rank 0, which sends and receives with other ranks alone, and rank 1 waits in send to rank 3"
    )


def test_a_rank_that_names_the_partner_which_waits_for_it_is_not_said_to_name_another() -> None:
    findings = diagnose(flights(*pairs_of_stages(Did("recv", peers=(1, 3))))).findings

    assert not any("alone" in finding.message for finding in findings)

"""Sends and receives that are issued in batches: a half that was left out, in dumps of active entries alone."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import Did, flights, record, waits

BATCHES = 3
WORLD = 8
PAIRS = {str(rank): (rank, rank + 1) for rank in range(0, WORLD, 2)}


def job(odd: int | None) -> list[FlightRecord]:
    """Pairs exchange tensors three times; rank `odd` leaves out its second send, so the last receive has no partner."""
    return [active(rank, odd) for rank in range(WORLD)]


def active(rank: int, odd: int | None) -> FlightRecord:
    """The dump of a rank that has lost the collectives before: halves of batches have no state of their own, and stay."""
    name, pair = next((name, pair) for name, pair in PAIRS.items() if rank in pair)
    me = pair.index(rank)
    send = Did("send", peers=(me, 1 - me), group=f"cp{name}", members=pair)
    receive, end = replace(send, op="recv", peers=(1 - me, me)), replace(send, op="coalesced")
    made: list[tuple[Did, int]] = []
    for number in range(1, BATCHES + 1):
        halves = [receive] if (rank, number) == (odd, BATCHES - 1) else [send, receive]
        stays = odd in pair and rank != odd and number == BATCHES
        made += [(waits(half) if stays else half, number) for half in (*halves, *([end] if stays else []))]
    made.append((waits(Did("all_reduce")), 1))
    found = record([did for did, _ in made], world=WORLD, waited=500.0, lost=2)
    through = BATCHES - 1 if odd in pair and rank != odd else BATCHES
    pipes = (
        replace(one, description="CONTEXT", last_enqueued=BATCHES, last_completed=through) for one in found.groups[:1]
    )
    groups = (*pipes, *(replace(one, last_enqueued=1, last_completed=0) for one in found.groups[1:]))
    return replace(found, seq=tuple(seq for _, seq in made), groups=groups)


def test_a_send_that_was_left_out_of_a_batch_is_found_where_the_dump_holds_all_sends_of_the_group() -> None:
    findings = diagnose(flights(*job(odd=1))).findings
    assert [(finding.code, finding.ranks) for finding in findings] == [("DDP313", (1,))]


def test_batches_that_are_whole_are_no_finding_about_sends() -> None:
    assert "DDP313" not in {finding.code for finding in diagnose(flights(*job(odd=None))).findings}


def of_two_stages(rank: int, odd: int | None) -> FlightRecord:
    """The first stage sends, then receives; the second one does both in one batch. Rank `odd` leaves out its send.

    What it receives has both sides then, in a batch that waits for the send. The rings have lost what was before.
    """
    stages = WORLD // 2
    pair = (rank % stages, rank % stages + stages)
    one = Did("send", peers=(0, 1), group=f"pp{pair[0]}", members=pair)
    there, back = one, replace(one, peers=(1, 0))
    if rank < stages:
        batches = [[] if rank == odd else [there], [replace(back, op="recv")]]
    else:
        batches = [[replace(there, op="recv"), back]]
    step = Did("all_reduce")
    made: list[tuple[Did, int]] = [(step, 3)]
    for number, halves in enumerate(filter(None, batches), start=5):
        ended = [*halves, replace(one, op="coalesced", peers=(0, 1))]
        made += [(waits(did) if odd in pair else did, number) for did in ended]
    made.append((waits(step), 4))
    found = record([did for did, _ in made], world=WORLD, waited=500.0, lost=40)
    groups = tuple(
        replace(group, description="PIPELINE" if group.name.startswith("pp") else group.description)
        for group in found.groups
    )
    return replace(found, seq=tuple(seq for _, seq in made), groups=groups)


def test_a_transfer_with_both_sides_does_not_stand_where_one_side_left_another_one_out() -> None:
    finding, *_ = diagnose(flights(*(of_two_stages(rank, odd=1) for rank in range(WORLD)))).findings
    assert (finding.code, finding.ranks) == ("DDP313", (1,))
    assert finding.message.startswith("rank 5 waits in recv from rank 1, which did not send")


def of_a_pipeline(rank: int, wrong: int) -> FlightRecord:
    """Active entries of four pipelines of three stages: the first one receives from the second, rank `wrong` from the third."""
    stage, line = divmod(rank, 4)
    members = (line, line + 4, line + 8)
    half = Did(
        "recv" if stage == 0 else "send", peers=(2 if rank == wrong else 1, 0), group=f"pp{line}", members=members
    )
    made = [] if stage == 2 else [waits(half) if wrong in members else half]
    found = record([*made, waits(Did("all_reduce"))], world=12, waited=500.0, lost=2)
    seq = tuple(1 for _ in found.seq)
    groups = (
        replace(group, description="PIPELINE", last_enqueued=1, last_completed=0 if wrong in members else 1)
        if group.name.startswith("pp")
        else replace(group, last_enqueued=1, last_completed=0)
        for group in found.groups
    )
    return replace(found, seq=seq, groups=tuple(groups))


def test_a_rank_that_names_another_partner_in_a_batch_is_named_by_dumps_of_active_entries() -> None:
    finding, *_ = diagnose(flights(*(of_a_pipeline(rank, wrong=1) for rank in range(12)))).findings
    assert (finding.code, finding.ranks) == ("DDP313", (1,))


def test_a_send_that_is_queued_behind_another_wait_is_not_what_a_circle_of_waits_is_about() -> None:
    """Rank 0 waits for rank 2 in an all_to_all, rank 2 for rank 1, and rank 1 for the first of two sends of rank 0."""
    send = Did("send", peers=(0, 1), group="pp", members=(0, 1))
    receive = replace(send, op="recv")
    experts = Did("alltoall_base", group="ep", members=(0, 2))
    others = Did("all_reduce", group="dp", members=(1, 2))
    made = [waits(experts), waits(send), waits(send)], [waits(receive)], [waits(others)]
    report = diagnose(flights(*(record(each, world=3, waited=500.0) for each in made)))
    assert not any(finding.code == "DDP313" for finding in report.findings)
    (said,) = report.undecided
    assert said.startswith(
        "rank 0 waited 8 min in alltoall_base #1 of group ep, and the dumps do not show which of ranks 0-2 is"
    )


def test_a_receive_whose_send_is_posted_as_well_lacks_no_partner_in_a_circle_of_waits() -> None:
    """Rank 1 waits in two receives of one that rank 0 sends, since its device has stopped; the short ring of rank 0 shows one."""
    there, back = Did("send", peers=(0, 1)), Did("send", peers=(1, 0))
    hub = [waits(replace(back, op="recv")), waits(there)]
    stopped = [waits(replace(there, op="recv")), waits(back), waits(replace(there, op="recv"))]
    each = [record(made, world=2, waited=500.0, lost=lost) for made, lost in ((hub, 30), (stopped, 0))]
    report = diagnose(flights(*each))
    assert not any(finding.ranks == (0,) for finding in report.findings)
    assert "the dumps do not show which of ranks 0-1 is at fault" in report.undecided[0]


def test_a_rank_that_sends_to_another_than_the_one_that_waits_for_it_is_named_beside_its_partner() -> None:
    """Ranks 1 and 2 send to rank 0 and receive its answers; rank 2 sends to rank 1, and goes on."""

    def transfer(op: str, source: int, target: int) -> Did:
        return waits(Did(op, peers=(source, target)))

    hub = [transfer("recv", 2, 0), transfer("send", 0, 1), transfer("send", 0, 2)]
    waiting = [transfer("recv", 0, 1)]
    other = [transfer("send", 2, 1), transfer("recv", 0, 2)]
    each = (record(made, world=3, waited=500.0) for made in (hub, waiting, other))
    (finding,) = diagnose(flights(*each)).findings
    assert (finding.code, finding.ranks) == ("DDP313", (1, 2))
    assert "rank 0 waits in recv from rank 2, which did not send" in finding.message

"""A receive without its send, by NCCL's recorder and by the agent's; a pair that meets."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, JobSize
from ddpdoctor.evidence.source import CodePlace, Jump, Loop
from ddpdoctor.evidence.stacks import GivenPeer
from ddpdoctor.model import Severity
from tests.checks import Sick, ranks
from tests.flight_records import STEP, TRAIN, Did, flights, record, waits
from tests.hangs import C10D, SCRIPT, hang, rank, stack

SEND = Did("send", line=80, peers=(0, 1))
RECV = Did("recv", line=82, peers=(0, 1))
RECEIVES = CollectiveCall(
    op="recv",
    group="0",
    seq=None,
    peer=0,
    returned=False,
    place=Frame(file="/home/me/job/train.py", line=9, function="f"),
)
SENDS = CollectiveCall(op="send", group="0", seq=None, peer=1)

BACK = Did("recv", line=84, peers=(1, 0))
BACK_SENT = Did("send", line=86, peers=(1, 0))
# rank 1 left out a send: what rank 0 waits in as one batch lacks it, and all sends and receives are there although calls are lost
END = Did("coalesced", peers=(0, 1))
IN_A_BATCH = replace(record([BACK, waits(SEND), waits(BACK), waits(END)], world=2, lost=5), seq=(1, 2, 2, 2))
LEFT_OUT = replace(
    record([Did("send", line=86, peers=(1, 0)), waits(RECV), waits(END)], world=2, lost=5), seq=(1, 2, 2)
)

PUBLISH = Did("broadcast", line=90, group="1")
COLLECT = Did("recv", line=92, peers=(1, 0))
DELIVER = Did("send", line=94, peers=(1, 0))

IN_BARRIER = rank(stack((C10D, 5100, "barrier"), user=(95, "train")))


LINES = {"S": ("send", 9), "R": ("recv", 11), "r": ("recv", 21), "s": ("send", 23)}


def agents_calls(transfers: str, peer: int) -> CollectiveCalls:
    """Sends and receives with one partner, each with the line of its letter, the last of which waits."""
    calls = (
        CollectiveCall(op=op, group="0", seq=None, peer=peer, place=Frame(file=SCRIPT, line=line, function="step"))
        for op, line in map(LINES.__getitem__, transfers)
    )
    *made, last = calls
    return CollectiveCalls(calls=(*made, replace(last, returned=False)))


def stands_in(op: str, peer: int, line: int) -> tuple[object, ...]:
    """A rank whose stack shows a send or a receive, with its partner."""
    place = Frame(file=SCRIPT, line=line, function="step")
    return (*rank(stack((C10D, 2600, op), user=(line, "step"))), GivenPeer(op=op, peer=peer, place=place))


def in_a_ring(rank: int, tags: range, *, later: int = 0, open_: int) -> CollectiveCalls:
    """An `isend` to the right and a `recv` from the left in each turn; the last tag is `later` by so many."""
    calls: list[CollectiveCall] = []
    for tag in tags:
        own = tag + later * (tag == tags[-1])
        ends = ("isend", (rank + 1) % 3, 6), ("recv", (rank - 1) % 3, 7)
        calls += [
            CollectiveCall(
                op=op,
                group="0",
                seq=None,
                peer=peer,
                tag=own,
                place=Frame(file=SCRIPT, line=line, function="exchange"),
                returned=(tag, number) != (tags[-1], open_),
            )
            for number, (op, peer, line) in enumerate(ends)
        ]
    return CollectiveCalls(calls=tuple(calls))


RING = (
    in_a_ring(0, range(1, 5), open_=0),
    in_a_ring(1, range(1, 5), later=1, open_=1),
    in_a_ring(2, range(1, 5), open_=1),
)

SEND_BACK = replace(SEND, peers=(1, 0))
PLAYS = Loop(line=75, head="for _ in range(rounds)", jumps=(Jump(line=78, word="break", test="budget <= 0"),))

SICK = (
    Sick(  # the partner has left the loop of its sends, and waits behind it
        evidence=flights(
            [*[replace(RECV, peers=(1, 0))] * 2, waits(replace(RECV, peers=(1, 0)))],
            [SEND_BACK, SEND_BACK, waits(Did("barrier", line=95, function="main"))],
            code=(
                CodePlace(file=TRAIN, line=80, function="train_step", loops=(PLAYS,)),
                CodePlace(file=TRAIN, line=95, function="main"),
            ),
        ),
        says="rank 0 waits in recv from rank 1, which did not send; rank 1 left its loop and waits in barrier #1",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:78 train_step",
            "rank 1 /home/me/job/train.py:95 main",
            "rank 0 /home/me/job/train.py:82 train_step",
        ),
        measured={"waiting": [0], "kind": "recv"},
    ),
    Sick(  # one rank has counted once more than the others
        evidence=ranks(*((one,) for one in RING)),
        says="rank 1 called isend with tag 5, where ranks 0,2 gave tag 4 at the same point of the program; rank 0 waits in send "
        "to rank 1 with tag 4, which does not receive; rank 1 waits in recv from rank 0 with tag 5, which did not send",
        ranks=(1,),
        where=(f"rank 1 {SCRIPT}:6 exchange", f"rank 1 {SCRIPT}:7 exchange", f"rank 0 {SCRIPT}:6 exchange"),
        measured={"waiting": [0, 1], "kind": "send"},
    ),
    # told by stacks alone: rank 2 has made a batch less, and 1 and 3 wait for it
    Sick(
        evidence=hang(IN_BARRIER, stands_in("send", 2, 25), IN_BARRIER, stands_in("recv", 2, 22), seconds=None),
        says="rank 1 waits in send to rank 2, which does not receive; rank 3 waits in recv from rank 2, which did not send; "
        "rank 2 waits in barrier",
        ranks=(2,),
        where=(f"rank 2 {SCRIPT}:95 train", f"rank 1 {SCRIPT}:25 step", f"rank 3 {SCRIPT}:22 step"),
        measured={"waiting": [1, 3], "kind": "send"},
    ),
    Sick(  # rank 1 receives from rank 2 while rank 3 sends to it: the wrong partner, or rank 2 has left its send out
        evidence=hang(IN_BARRIER, stands_in("recv", 2, 25), IN_BARRIER, stands_in("send", 1, 42), seconds=None),
        says="rank 1 waits in recv from rank 2, which did not send; rank 2 waits in barrier",
        ranks=(1, 2),
        where=(f"rank 2 {SCRIPT}:95 train", f"rank 1 {SCRIPT}:25 step", f"rank 3 {SCRIPT}:42 step"),
        measured={"waiting": [1], "kind": "recv"},
    ),
    Sick(  # both receive first
        evidence=hang(stands_in("recv", 1, 22), stands_in("recv", 0, 22), seconds=None),
        says="rank 0 waits in recv from rank 1, which did not send; rank 1 waits in recv from rank 0, which did not send",
        ranks=(0, 1),
        where=(f"rank 0 {SCRIPT}:22 step", f"rank 1 {SCRIPT}:22 step"),
        measured={"waiting": [0, 1], "kind": "recv"},
    ),
    # a stage of a pipeline left out its sends, and waits for the backward transfers; its partner does what it always did
    Sick(
        evidence=ranks(agents_calls("SSRR" * 3 + "R", 1), agents_calls("rrss" * 3 + "r", 0)),
        says="rank 0 did not call send to rank 1, as it did at this point in the turns before, and waits in recv from rank 1; "
        "rank 1 waits in recv from rank 0, which did not send",
        ranks=(0,),
        where=(f"rank 0 {SCRIPT}:9 step", f"rank 0 {SCRIPT}:11 step", f"rank 1 {SCRIPT}:21 step"),
        measured={"waiting": [0, 1], "kind": "recv"},
    ),
    Sick(  # what each makes is no turn of what it made before
        evidence=ranks(agents_calls("SRRSR", 1), agents_calls("rssrr", 0)),
        says="rank 0 waits in recv from rank 1, which did not send; rank 1 waits in recv from rank 0, which did not send",
        ranks=(0, 1),
        where=(f"rank 0 {SCRIPT}:11 step", f"rank 1 {SCRIPT}:21 step"),
        measured={"waiting": [0, 1], "kind": "recv"},
    ),
    # rank 0 left out its broadcast, for which rank 1 waits before it sends
    Sick(
        evidence=flights(
            [*[PUBLISH, COLLECT] * 4, waits(COLLECT)], [*[PUBLISH, DELIVER] * 4, waits(PUBLISH)], backend="gloo"
        ),
        says="rank 0 did not call broadcast #5 of group 1, as it always did before this recv: rank 1 waits in it, and rank 0 "
        "waits in recv from rank 1",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:92 train_step", "rank 1 /home/me/job/train.py:90 train_step"),
        measured={"waiting": [0], "kind": "recv"},
    ),
    # rank 1 left out a receive: its send is in front of what it receives next, behind which rank 0 receives
    Sick(
        evidence=flights([waits(SEND), waits(BACK), waits(SEND)], [waits(BACK_SENT), waits(RECV)]),
        says="rank 0 waits in send to rank 1, which does not receive",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:80 train_step",),
        measured={"waiting": [0], "kind": "send"},
    ),
    Sick(
        evidence=flights(IN_A_BATCH, LEFT_OUT),
        says="rank 0 waits in recv from rank 1, which did not send",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:84 train_step",),
        measured={"waiting": [0], "kind": "recv"},
    ),
    Sick(
        evidence=flights([STEP, SEND, waits(STEP)], [STEP, RECV, waits(RECV)]),
        says="rank 1 waits in recv from rank 0, which did not send; rank 0 waits in all_reduce #2",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 1 /home/me/job/train.py:82 train_step"),
        measured={"waiting": [1], "kind": "recv"},
    ),
    Sick(  # rings that wrapped hold one more send than receives, and the last receive has no send nevertheless
        evidence=flights(
            record([SEND, SEND, SEND, waits(STEP)], world=2, lost=50), record([RECV, waits(RECV)], world=2, lost=90)
        ),
        says="rank 1 waits in recv from rank 0, which did not send; rank 0 waits in all_reduce #1",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 1 /home/me/job/train.py:82 train_step"),
        measured={"waiting": [1], "kind": "recv"},
    ),
    *(  # for some seconds the partner may load data, where nothing but dumps shows that the job hung
        Sick(
            evidence=flights(
                record([SEND], world=2, waited=seconds), record([RECV, waits(RECV)], world=2, waited=seconds)
            ),
            says="rank 1 waits in recv from rank 0, which did not send",
            severity=severity,
            ranks=(0,),
            where=("rank 1 /home/me/job/train.py:82 train_step",),
            measured={"waiting": [1], "kind": "recv"},
        )
        for seconds, severity in ((9.0, Severity.INFO), (90.0, Severity.FAIL))
    ),
    Sick(
        evidence=ranks(CollectiveCalls(), CollectiveCalls(calls=(RECEIVES,))),
        says="rank 1 waits in recv from rank 0, which did not send",
        ranks=(0,),
        where=("rank 1 /home/me/job/train.py:9 f",),
        measured={"waiting": [1], "kind": "recv"},
    ),
    Sick(  # a pipeline: the ranks behind wait for one that waits itself
        evidence=ranks(
            CollectiveCalls(calls=(replace(SENDS, tag=6, returned=False),)),
            CollectiveCalls(calls=(replace(RECEIVES, tag=5),)),
            CollectiveCalls(calls=(replace(RECEIVES, peer=1, tag=5),)),
            CollectiveCalls(calls=(replace(RECEIVES, peer=2, tag=5),)),
        ),
        says="rank 0 waits in send to rank 1 with tag 6, which does not receive; rank 1 waits in recv from rank 0 with tag 5, "
        "which did not send",
        ranks=(0, 1),
        where=("rank 1 /home/me/job/train.py:9 f",),
        measured={"waiting": [0, 1], "kind": "send"},
    ),
)
HEALTHY = (
    hang(stands_in("recv", 1, 22), stands_in("send", 0, 25), seconds=None),  # they meet
    hang(stands_in("recv", 1, 22), stands_in("recv", 2, 22), rank(moved=True), seconds=None),
    hang(
        stands_in("recv", 1, 22), stands_in("recv", 2, 22), stands_in("recv", 0, 22)[:2], seconds=None
    ),  # from anybody
    hang(stands_in("recv", 1, 22), IN_BARRIER, facts=(JobSize(ranks=3),), seconds=None),
    flights(  # each waits for the other in what its ring buffer holds; what they waited in first is lost
        record([waits(Did("recv", line=82, peers=(1, 0)))], world=2, lost=9),
        record([waits(RECV)], world=2, lost=9),
    ),
    flights(record([SEND, waits(SEND)], world=2, waited=0.3), record([RECV, waits(RECV)], world=2, waited=0.3)),
    ranks(CollectiveCalls(calls=(SENDS,)), CollectiveCalls(calls=(replace(RECEIVES, returned=True),))),
)

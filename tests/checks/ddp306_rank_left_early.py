"""A rank past its loop, or gone with exit code 0, while others are in the next step; ranks that end together."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, RankExit, StepCount
from ddpdoctor.evidence.source import CodePlace, Jump, Loop, RankValue, SourceCode
from ddpdoctor.evidence.stacks import Thread
from tests.checks import Sick, at, ranks
from tests.drawn_batches import drew
from tests.flight_records import STEP, TRAIN, Did, flights, waits
from tests.hangs import C10D, STDLIB, hang, rank, stack
from tests.jobs_that_end_early import (
    AT,
    BEHIND,
    CODE,
    EITHER,
    END,
    ENDED,
    EVALUATED,
    EXITS,
    IN_BARRIER,
    IN_INIT,
    IN_OTHER_BARRIER,
    LEAVES_BY_RANK,
    LONGER,
    NEXT,
    SEEN,
    SHORTER,
    STOPS,
    WITH_LEAVES,
    apart,
    counts_nothing,
    lost_in_save,
    mixed_up,
    stopped,
    sums_behind,
    under,
    validates_early,
    without_ddp,
)
from tests.rank_ends import LOST_PEER, WRONG_SIZE, ended

COUNTS = Loop(line=55, head="for step in range(10 - (rank == 1))")
BEHIND_IT = (
    Frame(file=C10D, line=3000, function="all_gather"),
    Frame(file=TRAIN, line=95, function="train_step"),
    Frame(file=TRAIN, line=100, function="main"),
)
ABORTED_THERE = RankExit(exit_code=-6, tail=(WRONG_SIZE,), native_stack=BEHIND_IT)

LENGTHS = RankValue(line=48, text="640 if rank else 624", targets=("n",), compares=True)
SHARED_OUT = SourceCode(places=(SEEN.places[0], replace(SEEN.places[1], rank_values=(LENGTHS,)), *SEEN.places[2:]))

EMPTY_SHARD = (
    RankExit(exit_code=0),
    CollectiveCalls(
        calls=(CollectiveCall(op="barrier", group="0", seq=1, place=Frame(file=TRAIN, line=40, function="train")),)
    ),
)
RETURNS = SourceCode(
    places=(
        CodePlace(
            file=TRAIN,
            line=48,
            function="train",
            exits=(
                Jump(line=30, word="return", test="dry_run"),  # above its last call
                Jump(line=45, word="return", test="not shard"),
            ),
        ),
    )
)

SHUTDOWN = (Frame(file=f"{STDLIB}/threading.py", line=1590, function="_shutdown"),)
WRITER = Thread(name="writer", frames=stack(user=(6, "writer")), os_id=101)

ASKS = rank(stack(user=(29, "weights")), system_call="recvfrom")
BY_CALL = RankExit(exit_code=0, left_by=(Frame(file="/job/train.py", line=18, function="spend"),))
STORE_CODE = SourceCode(places=(CodePlace(file="/job/train.py", line=29, function="weights", calls=("store.get",)),))

SICK = (
    Sick(  # `os._exit(0)`: the rank that should set the key is gone, and no recorder knows of the store
        evidence=hang(ASKS, ASKS, (BY_CALL,), facts=(STORE_CODE,)),
        says="rank 2 ended with exit code 0 while ranks 0-1 wait for a key of the store",
        ranks=(2,),
        where=("rank 2 /job/train.py:18 spend", "rank 0 /job/train.py:29 weights", "rank 1 /job/train.py:29 weights"),
        also=("DDP318",),
    ),
    Sick(  # `sys.exit(0)` in the loop, and a thread of the program that still waits for work
        evidence=hang(rank(), rank(SHUTDOWN, others=(WRITER,), system_call="futex")),
        says="rank 1 has come to the end of the program, and something keeps the process alive; rank 0 waits for it in "
        "backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:6 writer", "rank 0 /job/train.py:61 train_step"),
        measured={"seconds": 6.1},
    ),
    Sick(  # no batches are counted (FSDP2), and gloo ends the rank at once, with its recorder
        evidence=flights(
            [STEP, NEXT],
            None,
            [STEP, NEXT],
            backend="gloo",
            code=(replace(CODE[0], loops=(COUNTS,)), CODE[1], CodePlace(file=TRAIN, line=100, function="main")),
            facts={0: (LOST_PEER,), 1: (ABORTED_THERE,), 2: (LOST_PEER,)},
        ),
        says="rank 1 left its loop, and its next collective met one of ranks 0,2 in it: gloo ended the job",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:55 train_step",
            "rank 1 /home/me/job/train.py:95 train_step",
            *at("/home/me/job/train.py:61 train_step", 0, 2),
        ),
        also=("DDP302", "DDP314"),
    ),
    # by a decision of its own, between the last forward and the call to which it did not come
    stopped("rank 1 /home/me/job/train.py:102 main", jumps=(STOPS,)),
    stopped(jumps=(replace(STOPS, line=97), replace(STOPS, line=106))),  # before that forward, and behind that call
    # out of a loop in which its peers went on, or passed over calls: by the only statement that leads out
    stopped("rank 1 /home/me/job/train.py:102 main", jumps=(replace(STOPS, line=100, word="continue"), STOPS)),
    stopped("rank 1 /home/me/job/train.py:102 main", jumps=(STOPS,), passed=2),
    Sick(
        evidence=lost_in_save(),
        says="rank 1 ended with exit code 0 after 1 step, and ranks 0,2 lost it in the middle of a collective, after 1 step",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:102 main", *BEHIND),
        measured={"steps": {"0": 1, "1": 1, "2": 1}},
    ),
    Sick(
        evidence=apart(8, 2),  # the one has no further batch, and the other has not drawn its next yet
        says="rank 1 left its loop and waits in barrier #2 while rank 0 waits in broadcast #2",
        ranks=(0, 1),
        where=(
            "rank 1 /home/me/job/train.py:55 train_step",
            "rank 1 /home/me/job/train.py:97 evaluate",
            "rank 0 /home/me/job/train.py:62 train_step",
        ),
        measured={"seq": 2, "group": "default", "calls": {"1": 2, "0": 2}, "steps": {}},
    ),
    Sick(
        evidence=apart(8, 8, further=[3]),  # the one has drawn a further batch, which the other had, too
        says="rank 1 left its loop and waits in barrier #2 while rank 0 waits in broadcast #2",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:55 train_step",
            "rank 1 /home/me/job/train.py:97 evaluate",
            "rank 0 /home/me/job/train.py:62 train_step",
        ),
        measured={"seq": 2, "group": "default", "calls": {"1": 2, "0": 2}, "steps": {}},
    ),
    Sick(  # one rank makes a turn more than all others
        evidence=flights([STEP, END], [STEP, END], [STEP, NEXT], [STEP, END], code=CODE),
        says="rank 2 makes one more turn of the loop than its peers: ranks 0-1,3 left their loop and wait in barrier #2 while "
        "rank 2 waits in all_reduce #2",
        ranks=(2,),
        where=("rank 2 /home/me/job/train.py:61 train_step", *at("/home/me/job/train.py:95 train_step", 0, 1, 3)),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 2, "3": 2, "2": 2}, "steps": {}},
    ),
    Sick(  # a loss is summed behind the epoch: gloo ends the job, and no recorder is left
        evidence=mixed_up(sums_behind(SHORTER, 4), LONGER, LONGER),
        says="a pass over the data has 2 batches on rank 0 and 3 on ranks 1-2",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:55 train_step", "rank 0 /home/me/job/train.py:95 train_step"),
        also=("DDP302",),
        measured={"batch": 2, "lengths": {"0": 2, "1": 3, "2": 3}},
    ),
    Sick(  # it left its loop a pass before, and gloo ends the job when it comes to the sum behind the next one
        evidence=mixed_up(sums_behind(drew(1, 2, 1, 2, 3, of=3), 7), *[drew(1, 2, 3, 1, 2, 3, of=3)] * 2),
        says="rank 0 left its loop after drawing 2 of 3 batches; ranks 1-2 went on to batch 3; since then gradients are "
        "averaged with those of other steps",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:63 train_step",),
        also=("DDP302",),
        measured={"batch": 2, "lengths": {"0": 3, "1": 3, "2": 3}},
    ),
    Sick(  # the same where no data loader counts the batches
        evidence=mixed_up(sums_behind(counts_nothing(SHORTER), 4), *[counts_nothing(LONGER)] * 2),
        says="rank 0 ended its loop after forward 2, and ranks 1-2 made a further one",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:63 train_step", "rank 0 /home/me/job/train.py:95 train_step"),
        also=("DDP302",),
        measured={"batch": None, "lengths": {}},
    ),
    Sick(  # nobody saw that they met: the rank could not read what it received
        evidence=validates_early(2, raised="UnicodeDecodeError"),
        says="a pass over the data has 2 batches on rank 1 and 3 on rank 0; no majority: either side may be at fault",
        ranks=(0, 1),
        where=(
            "rank 1 /opt/venv/lib/python3.11/site-packages/mmengine/runner/loops.py:55 train_step",
            *at("/home/me/job/train.py:99 main", 1, 1),
        ),
        also=("DDP302",),
        measured={"batch": 2, "lengths": {"0": 3, "1": 2}},
    ),
    Sick(  # of two ranks, one left the loop and began its next pass
        evidence=replace(ranks(drew(1, 2, 3, 4, of=4), drew(1, 2, 1, 2, of=4, lacks=3)), job=(WITH_LEAVES,)),
        says="rank 1 left its loop after drawing 2 of 4 batches; rank 0 went on to batch 3; since then gradients are averaged "
        "with those of other steps",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:63 train_step",),
        measured={"batch": 2, "lengths": {"0": 4, "1": 4}},
    ),
    Sick(  # the data loaders are not equally long
        evidence=ranks(drew(1, 2, 3, 1, of=3), drew(1, 2, 1, 2, of=2, lacks=3), drew(1, 2, 3, 1, of=3)),
        says="a pass over the data has 2 batches on rank 1 and 3 on ranks 0,2; since then gradients are averaged with those "
        "of other steps",
        ranks=(1,),
        measured={"batch": 2, "lengths": {"0": 3, "1": 2, "2": 3}},
    ),
    Sick(  # the few have more batches
        evidence=ranks(drew(1, 2, 3, 4, of=4, lacks=3), drew(1, 2, 3, 1, of=3), drew(1, 2, 3, 1, of=3)),
        says="a pass over the data has 3 batches on ranks 1-2 and 4 on rank 0; since then gradients are averaged with those "
        "of other steps",
        ranks=(0,),
        measured={"batch": 3, "lengths": {"0": 4, "1": 3, "2": 3}},
    ),
    Sick(  # the shorter loader shows at the end of the job only, two passes later
        evidence=ended(
            (drew(1, 2, 1, 2, of=2), RankExit(exit_code=0)),
            (drew(1, 2, 3, 1, 2, of=3), LOST_PEER),
            (drew(1, 2, 3, 1, 2, of=3), LOST_PEER),
        ),
        says="a pass over the data has 2 batches on rank 0 and 3 on ranks 1-2; since then gradients are averaged with those "
        "of other steps; rank 0 ended with exit code 0, and ranks 1-2 lost it in the middle of a collective",
        ranks=(0,),
        where=("rank 1 /home/me/job/train.py:48 train", "rank 2 /home/me/job/train.py:48 train"),
        measured={"batch": 2, "lengths": {"0": 2, "1": 3, "2": 3}},
    ),
    Sick(  # other loaders are shorter than that of the rank that ended: they are not why it ended
        evidence=ended(
            (drew(1, 2, 3, 1, 2, of=3), RankExit(exit_code=0)),
            (drew(1, 2, 1, 2, 1, of=2), LOST_PEER),
            (drew(1, 2, 3, 1, 2, of=3), LOST_PEER),
        ),
        says="rank 0 ended with exit code 0, and ranks 1-2 lost it in the middle of a collective",
        ranks=(0,),
        where=("rank 1 /home/me/job/train.py:48 train", "rank 2 /home/me/job/train.py:48 train"),
        measured={"steps": {}},
    ),
    Sick(  # by the only `return` between its last call and the line of the others, in one function
        evidence=ended(*(EMPTY_SHARD if rank == 1 else LOST_PEER for rank in range(3)), job=(RETURNS,)),
        says="rank 1 ended with exit code 0, and ranks 0,2 lost it in the middle of a collective",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:45 train",
            "rank 0 /home/me/job/train.py:48 train",
            "rank 2 /home/me/job/train.py:48 train",
        ),
        measured={"steps": {}},
    ),
    Sick(  # out of a loop without a DataLoader, by a `break` under a test of the rank
        evidence=flights(
            [STEP],
            [STEP, NEXT],
            facts={
                0: (
                    RankExit(exit_code=0),
                    CollectiveCalls(forwards=(Forward(number=1, place=AT, stack=(AT,)),)),
                ),
                1: (CollectiveCalls(),),
            },
            code=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(LEAVES_BY_RANK,)),),
        ),
        says="rank 0 ended with exit code 0 while rank 1 waits in all_reduce #2",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:63 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 2, "group": "default", "calls": {"0": 1, "1": 2}, "steps": {}},
    ),
    Sick(  # it went on from a checkpoint that its peer has not, and made fewer passes
        evidence=flights(
            [STEP],
            [STEP, NEXT],
            facts={
                0: (
                    RankExit(exit_code=0),
                    StepCount(steps=66),
                    CollectiveCalls(forwards=(Forward(number=1, place=AT, stack=(AT,)),)),
                ),
                1: (StepCount(steps=66), CollectiveCalls()),
            },
            code=(
                CodePlace(
                    file=TRAIN,
                    line=61,
                    function="train_step",
                    loops=(
                        Loop(line=50, head="for epoch in range(self.epochs_run, max_epochs)"),
                        Loop(line=55, head="for images, labels in loader"),
                    ),
                ),
            ),
        ),
        says="rank 0 ended with exit code 0 after 66 steps while rank 1 waits in all_reduce #2, which has made 66 steps",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:50 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 2, "group": "default", "calls": {"0": 1, "1": 2}, "steps": {"0": 66, "1": 66}},
    ),
    Sick(  # without a DDP model: out of the loop in which its peer waits
        evidence=flights(
            [STEP],
            [STEP, NEXT],
            facts={0: (RankExit(exit_code=0),)},
            code=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(LEAVES_BY_RANK,)),),
        ),
        says="rank 0 ended with exit code 0 while rank 1 waits in all_reduce #2",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:63 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 2, "group": "default", "calls": {"0": 1, "1": 2}, "steps": {}},
    ),
    Sick(  # the test of the `break` names another rank than the one that ended: that is not how it left
        evidence=flights(
            [STEP, NEXT],
            [STEP],
            facts={1: (RankExit(exit_code=0),)},
            code=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(LEAVES_BY_RANK,)),),
        ),
        says="rank 1 ended with exit code 0 while rank 0 waits in all_reduce #2",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:61 train_step",),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 1}, "steps": {}},
    ),
    Sick(  # one rank left in a helper, and both had made as many steps
        evidence=flights(
            [STEP],
            [STEP, END],
            facts={
                0: (
                    RankExit(exit_code=0, left_by=(Frame(file=TRAIN, line=12, function="stop_if_done"),)),
                    StepCount(steps=1),
                ),
                1: (StepCount(steps=1),),
            },
        ),
        says="rank 0 ended with exit code 0 after 1 step while rank 1 waits in barrier #2, which has made 1 step",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:12 stop_if_done", "rank 1 /home/me/job/train.py:95 train_step"),
        measured={"seq": 2, "group": "default", "calls": {"0": 1, "1": 2}, "steps": {"0": 1, "1": 1}},
    ),
    Sick(  # the same with lengths by rank above the loop
        evidence=hang(rank(), rank(IN_BARRIER), facts=(SHARED_OUT,), seconds=None),
        says="rank 1 left its loop and waits in barrier while rank 0 waits in backward",
        ranks=(1,),
        where=(
            "rank 1 /job/train.py:48 train_step",
            "rank 1 /job/train.py:95 train_step",
            "rank 0 /job/train.py:61 train_step",
        ),
    ),
    Sick(  # nobody prepared the job: its stacks are all there is
        evidence=hang(rank(), rank(IN_BARRIER), facts=(SEEN,), seconds=None),
        says="rank 1 left its loop and waits in barrier while rank 0 waits in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:95 train_step", "rank 0 /job/train.py:61 train_step"),
    ),
    Sick(
        evidence=flights(
            [STEP, NEXT],
            [STEP, END],
            [STEP, NEXT],
            [STEP, NEXT],
            code=CODE,
            facts={rank: (StepCount(steps=3 if rank == 1 else 4),) for rank in range(4)},
        ),
        says="rank 1 left its loop after 3 steps and waits in barrier #2 while ranks 0,2-3 wait in all_reduce #2, "
        "which have made 4 steps",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:95 train_step", *at("/home/me/job/train.py:61 train_step", 0, 2, 3)),
        measured={
            "seq": 2,
            "group": "default",
            "calls": {"1": 2, "0": 2, "2": 2, "3": 2},
            "steps": {"0": 4, "1": 3, "2": 4, "3": 4},
        },
    ),
    Sick(
        evidence=flights([STEP, END], [STEP, NEXT], code=CODE),
        says="rank 0 left its loop and waits in barrier #2 while rank 1 waits in all_reduce #2",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:95 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 2}, "steps": {}},
    ),
    Sick(  # after one step, and after two in the epoch before
        evidence=flights(
            [EVALUATED, STEP, STEP, EVALUATED, STEP, waits(EVALUATED)],
            [EVALUATED, STEP, STEP, EVALUATED, STEP, NEXT],
            code=CODE,
        ),
        says="rank 0 left its loop and waits in all_gather #6 while rank 1 waits in all_reduce #6",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:95 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 6, "group": "default", "calls": {"0": 6, "1": 6}, "steps": {}},
    ),
    Sick(
        evidence=flights(
            [STEP, NEXT],
            [STEP, waits(Did("barrier", line=101, function="main"))],
            [STEP, NEXT],
        ),
        says="rank 1 left its loop and waits in barrier #2 while ranks 0,2 wait in all_reduce #2",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:101 main", *at("/home/me/job/train.py:61 train_step", 0, 2)),
        measured={"seq": 2, "group": "default", "calls": {"1": 2, "0": 2, "2": 2}, "steps": {}},
    ),
    Sick(
        evidence=flights([STEP, NEXT], None, [STEP, NEXT], facts={1: (RankExit(exit_code=0),)}),
        says="rank 1 ended with exit code 0 while ranks 0,2 wait in all_reduce #2",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 2 /home/me/job/train.py:61 train_step"),
        measured={"seq": 2, "group": "default", "calls": {"1": 0, "0": 2, "2": 2}, "steps": {}},
    ),
    Sick(  # the one that waits makes the call of every turn once more
        evidence=flights(
            [STEP, STEP, NEXT],
            [STEP, STEP],
            [STEP, STEP],
            code=CODE,
            facts={1: (RankExit(exit_code=0),), 2: (RankExit(exit_code=0),)},
        ),
        says="rank 0 makes one more turn of the loop than its peers: ranks 1-2 ended with exit code 0 while rank 0 waits in "
        "all_reduce #3",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:61 train_step",),
        measured={"seq": 3, "group": "default", "calls": {"0": 3, "1": 2, "2": 2}, "steps": {}},
    ),
    Sick(  # of four ranks, where the wait-for graph sees one that waits, too
        evidence=flights(
            [STEP, STEP],
            [STEP, STEP],
            [STEP, STEP],
            [STEP, STEP, NEXT],
            code=CODE,
            facts={rank: (RankExit(exit_code=0),) for rank in range(3)},
        ),
        says="rank 3 makes one more turn of the loop than its peers: ranks 0-2 ended with exit code 0 while rank 3 waits in "
        "all_reduce #3",
        ranks=(3,),
        where=("rank 3 /home/me/job/train.py:61 train_step",),
        measured={"seq": 3, "group": "default", "calls": {"0": 2, "1": 2, "2": 2, "3": 3}, "steps": {}},
    ),
    Sick(  # two ranks died of it, and their recorders with them: that only one is left to wait makes it no culprit
        evidence=flights(
            [STEP, NEXT], None, [STEP], None, facts={1: (LOST_PEER,), 2: (RankExit(exit_code=0),), 3: (LOST_PEER,)}
        ),
        says="rank 2 ended with exit code 0 while rank 0 waits in all_reduce #2",
        ranks=(2,),
        where=("rank 0 /home/me/job/train.py:61 train_step",),
        measured={"seq": 2, "group": "default", "calls": {"2": 1, "0": 2}, "steps": {}},
    ),
    Sick(  # gloo counts a call that failed as one that is through: no device has stopped
        evidence=flights(
            [STEP, NEXT],
            None,
            [STEP, STEP],
            [STEP, STEP],
            backend="gloo",
            facts={1: (RankExit(exit_code=0),), 2: (LOST_PEER,), 3: (LOST_PEER,)},
        ),
        says="rank 1 ended with exit code 0, and ranks 2-3 lost it in the middle of a collective",
        ranks=(1,),
        where=("rank 2 /home/me/job/train.py:48 train", "rank 3 /home/me/job/train.py:48 train"),
        measured={"steps": {}},
    ),
    Sick(  # it trained the module inside DDP
        evidence=without_ddp(steps=9),
        says="rank 1 ended with exit code 0 after 9 steps, and ranks 0,2 lost it in the middle of a collective, after 1 step",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:48 train", "rank 2 /home/me/job/train.py:48 train"),
        measured={"steps": {"0": 1, "1": 9, "2": 1}},
    ),
    Sick(  # it made no step more: its model may be another one
        evidence=without_ddp(steps=1),
        says="rank 1 ended with exit code 0 after 1 step, and ranks 0,2 lost it in the middle of a collective, after 1 step",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:48 train", "rank 2 /home/me/job/train.py:48 train"),
        measured={"steps": {"0": 1, "1": 1, "2": 1}},
    ),
    Sick(  # looked at from outside: torchrun goes on where a rank has ended well
        evidence=hang(rank(), (RankExit(exit_code=0),), rank()),
        says="rank 1 ended with exit code 0 while ranks 0,2 wait in backward",
        ranks=(1,),
        where=("rank 0 /job/train.py:61 train_step", "rank 2 /job/train.py:61 train_step"),
    ),
    Sick(  # it ended before it joined
        evidence=hang(rank(IN_INIT), rank(IN_INIT), (RankExit(exit_code=0),)),
        says="rank 2 ended with exit code 0 while ranks 0-1 wait in init_process_group",
        ranks=(2,),
        where=("rank 0 /job/train.py:8 setup", "rank 1 /job/train.py:8 setup"),
    ),
    Sick(  # one call in the program ends it under a test of the rank; another one fails, and another is for other ranks
        evidence=hang(rank(), (RankExit(exit_code=0),), rank(), facts=(EXITS,)),
        says="rank 1 ended with exit code 0 while ranks 0,2 wait in backward",
        ranks=(1,),
        where=("rank 1 /job/train.py:20 stop", *at("/job/train.py:61 train_step", 0, 2)),
    ),
    Sick(  # two calls of which either can have ended it
        evidence=hang(rank(), (RankExit(exit_code=0),), rank(), facts=(EITHER,)),
        says="rank 1 ended with exit code 0 while ranks 0,2 wait in backward",
        ranks=(1,),
        where=("rank 0 /job/train.py:61 train_step", "rank 2 /job/train.py:61 train_step"),
    ),
    Sick(  # all ranks must join, so that the number of those that ended says nothing
        evidence=hang(rank(IN_INIT), *[(RankExit(exit_code=0),)] * 3),
        says="ranks 1-3 ended with exit code 0 while rank 0 waits in init_process_group",
        ranks=(1, 2, 3),
        where=("rank 0 /job/train.py:8 setup",),
    ),
    Sick(  # nor does the test of the rank above it
        evidence=hang(*[rank(IN_INIT)] * 2, *[(RankExit(exit_code=0),)] * 2, facts=(under(8, "rank < 2"),)),
        says="ranks 2-3 ended with exit code 0 while ranks 0-1 wait in init_process_group",
        ranks=(2, 3),
        where=("rank 0 /job/train.py:8 setup", "rank 1 /job/train.py:8 setup"),
    ),
    Sick(  # the ranks wait in both branches of the test
        evidence=hang(
            rank(IN_BARRIER),
            *[rank(IN_OTHER_BARRIER)] * 2,
            (RankExit(exit_code=0),),
            facts=(SourceCode(places=(*under(95).places, *under(97, branch=1).places)),),
        ),
        says="rank 3 ended with exit code 0 while ranks 0-2 wait in barrier",
        ranks=(3,),
        where=("rank 0 /job/train.py:95 train_step", *at("/job/train.py:97 train_step", 1, 2)),
    ),
    Sick(  # the test does not say that rank 3 makes no call
        evidence=hang(*[rank(IN_BARRIER)] * 3, (RankExit(exit_code=0),), facts=(under(95, "rank < 100"),)),
        says="rank 3 ended with exit code 0 while ranks 0-2 wait in barrier",
        ranks=(3,),
        where=tuple(f"rank {number} /job/train.py:95 train_step" for number in range(3)),
    ),
    Sick(  # one rank alone lost it before the launcher ended the others
        evidence=flights(
            [STEP],
            [STEP, STEP],
            None,
            None,
            facts={0: (RankExit(exit_code=0),), 1: (LOST_PEER,), 2: (ENDED,), 3: (ENDED,)},
        ),
        says="rank 0 ended with exit code 0, and rank 1 lost it in the middle of a collective",
        ranks=(0,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"steps": {}},
    ),
)
IN_ALL_REDUCE = stack((C10D, 3040, "all_reduce"), user=(70, "log"))
IN_RECV = stack((C10D, 2562, "recv"), user=(72, "exchange"))
HEALTHY = (
    hang((RankExit(exit_code=0),), rank(IN_ALL_REDUCE), rank()),  # they may wait for each other
    hang((RankExit(exit_code=0),), rank(IN_RECV), rank(IN_RECV)),
    hang((RankExit(exit_code=0),), rank()),  # of two, the other may have made a call too many
    flights([STEP, Did("barrier", line=95)], [STEP, Did("barrier", line=95)], code=CODE),
    flights([STEP], [STEP], facts={rank: (RankExit(exit_code=0),) for rank in range(2)}),
)

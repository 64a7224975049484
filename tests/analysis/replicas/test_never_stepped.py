"""A rank that never steps: DDP510 shows the step that only the others make, with the test above it."""

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import CodePlace, Condition, SourceCode
from ddpdoctor.evidence.training_trace import Table, Track

TABLES = {"w": Table(digests={"w": "w"}, shapes={"w": (1,)})}
STEP = Frame(file="/job/train.py", line=311, function="main")
NOT_RANK_1 = Condition(line=311, test="ddp_rank != 1", branch=0)


def steps(made: int) -> Track:
    """A rank with so many steps, of which every second was looked at."""
    seen = tuple(
        StepSeen(step=step, forwards=step + 1, since=0, weights="w", after="w", settings={}, line=STEP)
        for step in range(0, made, 2)
    )
    return Track(
        method="linear", every=1, interval=2, start="w", tables=TABLES, steps_made=made, forwards_made=8, steps=seen
    )


def test_the_step_that_only_the_others_make_is_shown_with_its_test() -> None:
    """`if ddp_rank != 1: scaler.step(optimizer)`."""
    ranks = tuple(RankFacts(rank=rank, host="a", facts=(steps(made),)) for rank, made in enumerate((8, 0, 8)))
    code = SourceCode(places=(CodePlace(file=STEP.file, line=311, function="main", conditions=(NOT_RANK_1,)),))

    (found,) = diagnose(Evidence(job=(code,), ranks=ranks, about_job=True)).findings

    assert (found.code, found.ranks) == ("DDP510", (1,))
    assert [(where.rank, where.line, where.note) for where in found.where] == [
        (rank, 311, "the optimizer step, inside `if ddp_rank != 1` (train.py:311)") for rank in (0, 2)
    ]

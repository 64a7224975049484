"""One report, told in every format: a rank's fault with its symptom, a skipped and a crashed check."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.model import Crashed, Ran, Report, Rule, Severity, Skipped, Where

CALLED_BY_SOME = Rule(
    code="DDP305",
    name="collective-called-by-some",
    summary="a collective that only some ranks call",
    severity=Severity.FAIL,
    remedy="call it on every rank",
    explains=("DDP408",),
)
TIMED_OUT = Rule(
    code="DDP408", name="collective-timed-out", summary="x", severity=Severity.WARN, remedy="look at the cause"
)
NO_GPU = Rule(code="DDP127", name="gpu-memory-errors", summary="x", severity=Severity.FAIL, remedy="reset the GPU")
NOT_OURS = Rule(code="DDP301", name="mismatch", summary="x", severity=Severity.FAIL, remedy="call the same")
BROKEN = Rule(code="DDP184", name="too-few-files", summary="x", severity=Severity.FAIL, remedy="raise the limit")

FINDING = CALLED_BY_SOME.finding(
    "rank 0 called broadcast #41 that ranks 1-3 never call",
    ranks=(0,),
    where=(
        Where(rank=0, file="train.py", line=88, function="validate", note="waits 6.2 s"),
        *(
            Where(rank=rank, file="train.py", line=61, function="train_step", note="all_reduce #41")
            for rank in (1, 2, 3)
        ),
    ),
    details=("inside `if rank == 0:` (train.py:85)",),
    calls={0: 42, 1: 41},
    waited_seconds=float("nan"),
)
SYMPTOM = replace(TIMED_OUT.finding("3 ranks timed out\nafter 600 s", ranks=(1, 2, 3)), explained_by="DDP305")
REPORT = Report(
    outcomes=(
        Skipped(NO_GPU, "no GPU data: this host has no NVIDIA driver"),
        Skipped(NOT_OURS, "no flight-recorder dump in the evidence", tried=False),
        Crashed(BROKEN, "ZeroDivisionError: <division> & zero\x00 (limits.py:3)"),
        Ran(CALLED_BY_SOME, (FINDING,)),
        Ran(TIMED_OUT, (SYMPTOM,)),
    ),
    findings=(FINDING, SYMPTOM),
    notes=("rank 2's stderr was cut",),
    undecided=("rank 7 never answered",),
)
HEALTHY = Report(outcomes=(Ran(CALLED_BY_SOME, ()), Ran(TIMED_OUT, ())), findings=())

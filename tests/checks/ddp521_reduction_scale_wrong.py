"""A hook that forgets to divide."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.gradients import ReductionScaled
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.value_chains import HOOK, CodeLine, ValueChain, ValueChains
from tests.checks import Sick
from tests.checks.divergent import found

REGISTERS = Frame(file="train.py", line=30, function="main")
DEFINED = CodeLine(file="train.py", line=2, function="average", text="def average")
DIVIDES = CodeLine(file="train.py", line=6, function="small", text="total.div_(count)")
SICK = (
    Sick(
        evidence=found(ReductionScaled(step=0, ranks=(0, 1, 2, 3), factor=4)),
        says="from step 0 of 40 on, the reduced gradient is 4 times the mean of the local gradients on all 4 ranks",
        ranks=(0, 1, 2, 3),
        measured={"step": 0, "tensors": [], "cause": "", "factor": 4},
    ),
    Sick(
        evidence=found(ReductionScaled(step=1, ranks=(0, 1, 2, 3), factor=0.5, by_hook=True, tensors=("a",), total=8)),
        says="from step 1 of 40 on, the reduced gradient of 1 of 8 parameters (a) is 0.5 times the mean of the local "
        "gradients on all 4 ranks",
        ranks=(0, 1, 2, 3),
        measured={"step": 1, "tensors": ["a"], "cause": "hook", "factor": 0.5},
    ),
    Sick(
        evidence=found(
            ReductionScaled(step=1, ranks=(0,), factor=0.5, by_hook=True, lines={0: REGISTERS}),
            source=ValueChains(chains=(ValueChain(at=REGISTERS, argument=HOOK, origin=DEFINED, entry=DIVIDES),)),
        ),
        says="from step 1 of 40 on, the reduced gradient is 0.5 times the mean of the local gradients on rank 0",
        ranks=(0,),
        where=("rank 0 train.py:6 small", "rank 0 train.py:30 main"),
        measured={"step": 1, "tensors": [], "cause": "hook", "factor": 0.5},
    ),
)
HEALTHY = (found(),)

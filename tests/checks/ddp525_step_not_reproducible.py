"""Weights that changed by themselves: in a step, in memory, in the optimizer's state, between two audits; on every rank."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.replicas.divergences.results import Corrupted, Repeated, StepNotReproducible
from ddpdoctor.evidence import RankFacts
from ddpdoctor.evidence.training_trace import Track
from tests.checks import Sick
from tests.checks.divergent import found

STEPPED = StepNotReproducible(
    step=5, ranks=(2,), tensors=("a",), at=Corrupted.STEP, bits=(20,), equal_at=4, optimizer="AdamW",
    devices={2: "NVIDIA H100 80GB HBM3, GPU-4f1c"},
)  # fmt: skip

TRACKS = tuple(
    RankFacts(rank=rank, host=f"node{rank // 2}", facts=(Track(method="xxh3", every=1),)) for rank in range(4)
)

SICK = (
    Sick(  # on several hosts
        evidence=replace(found(STEPPED), ranks=TRACKS),
        says="at step 5 of 40, AdamW.step gave other weights on rank 2 (NVIDIA H100 80GB HBM3, GPU-4f1c on node1): a (bit 20 of "
        "one element); weights at its forward, and gradients, state and settings before it, were equal on all ranks",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a"], "cause": "step", "bits": [20]},
    ),
    Sick(
        evidence=found(STEPPED),
        says="at step 5 of 40, AdamW.step gave other weights on rank 2 (NVIDIA H100 80GB HBM3, GPU-4f1c): a (bit 20 of one "
        "element); weights at its forward, and gradients, state and settings before it, were equal on all ranks",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a"], "cause": "step", "bits": [20]},
    ),
    Sick(
        evidence=found(replace(STEPPED, repeated=Repeated.ONCE)),
        says="at step 5 of 40, AdamW.step gave other weights on rank 2 (NVIDIA H100 80GB HBM3, GPU-4f1c): a (bit 20 of one "
        "element); weights, gradients, state and settings before it were equal on all ranks; made again, the step gives rank 2 "
        "the weights of the others",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a"], "cause": "step", "bits": [20], "repeated": "once"},
    ),
    Sick(
        evidence=found(replace(STEPPED, repeated=Repeated.AGAIN, devices={})),
        says="at step 5 of 40, AdamW.step gave other weights on rank 2: a (bit 20 of one element); weights, gradients, state and "
        "settings before it were equal on all ranks; made again twice, the step gives each rank its own weights again",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a"], "cause": "step", "bits": [20], "repeated": "again"},
    ),
    Sick(
        evidence=found(
            StepNotReproducible(step=5, ranks=(2,), tensors=("a",), at=Corrupted.MEMORY, bits=(3,), equal_at=4)
        ),
        says="before step 5 of 40, a changed on rank 2 (bit 3 of one element), and PyTorch counted no more writes on these "
        "ranks since the step before",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a"], "cause": "memory", "bits": [3]},
    ),
    Sick(
        evidence=found(
            StepNotReproducible(step=5, ranks=(2,), tensors=("a",), at=Corrupted.PART, bits=(3,), equal_at=4)
        ),
        says="between step 4 and step 5 of 40, the part of a on rank 2 changed (bit 3 of one element), and PyTorch counted no "
        "writes to it",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a"], "cause": "part", "bits": [3]},
    ),
    Sick(
        evidence=found(
            StepNotReproducible(step=5, ranks=(0, 1), tied=True, tensors=("a.exp_avg",), at=Corrupted.STATE, equal_at=4)
        ),
        says="at step 5 of 40, the optimizer state a.exp_avg differs on ranks 0-1 since step 4, and PyTorch counted no more "
        "writes on these ranks; no majority: either side may be at fault",
        ranks=(0, 1),
        measured={"step": 5, "tensors": ["a.exp_avg"], "cause": "state", "bits": []},
    ),
    Sick(
        evidence=found(StepNotReproducible(step=8, ranks=(1,), tensors=("a",), at=Corrupted.UNSEEN, equal_at=4)),
        says="between steps 4 and 8 of 40, one element of a changed on rank 1, and PyTorch counted no more writes on these ranks",
        ranks=(1,),
        measured={"step": 8, "tensors": ["a"], "cause": "unseen", "bits": []},
    ),
    Sick(
        evidence=found(
            StepNotReproducible(
                step=5,
                ranks=(0, 1, 2, 3),
                tied=True,
                tensors=("a", "b"),
                at=Corrupted.NONDETERMINISTIC,
                equal_at=4,
                optimizer="SGD",
            )
        ),
        says="at step 5 of 40, SGD.step gave other weights on every rank: a, b; weights, gradients, state and settings before it "
        "were equal on all ranks",
        ranks=(0, 1, 2, 3),
        measured={"step": 5, "tensors": ["a", "b"], "cause": "nondeterministic", "bits": []},
    ),
)
HEALTHY = (found(),)

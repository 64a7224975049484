"""A sampler with another seed on one rank."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.replicas.divergences.data import SamplesOverlap
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import ShareSeen
from tests.checks import Sick
from tests.checks.divergent import found

MADE = Frame(file="/home/me/job/train.py", line=31, function="main")
TOLD = Frame(file="/home/me/job/train.py", line=52, function="main")
DRAWS = Frame(file="/home/me/job/data.py", line=9, function="__iter__")
OVERLAP = SamplesOverlap(step=0, ranks=(0, 1), epoch=1, drawn=104, unique=80, missing=23, length=103)
MEASURED = {
    "step": 0, "tensors": [], "cause": "", "epoch": 1, "drawn": 104, "unique": 80, "repeats": 24, "missing": 23, "length": 103,
}  # fmt: skip
SAYS = "in epoch 1, 104 draws covered 80 of 103 samples: 24 draws were repeats and 23 samples were never drawn"


def shared(*each: ShareSeen) -> SamplesOverlap:
    """The same, with what the sampler of each rank draws."""
    return replace(OVERLAP, shares=dict(enumerate(each)))


SICK = (
    Sick(  # no rank has a sampler that divides the data set
        evidence=found(replace(OVERLAP, ranks=(0, 1, 2, 3), drawn=412, unique=103, missing=0)),
        says=(
            "in epoch 1, 412 draws covered 103 of 103 samples: 309 draws were repeats and 0 samples were never drawn; each of "
            "the 4 ranks draws all of them"
        ),
        ranks=(0, 1, 2, 3),
        measured={**MEASURED, "drawn": 412, "unique": 103, "repeats": 309, "missing": 0},
    ),
    Sick(  # only rank 0 calls `set_epoch`
        evidence=found(
            shared(
                ShareSeen(rank=0, replicas=2, epoch=1, made=MADE, told=TOLD),
                ShareSeen(rank=1, replicas=2, epoch=0, made=MADE),
            )
        ),
        says=f"{SAYS}; the samplers are in epoch 1 on rank 0 and 0 on rank 1",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:52 main", "rank 1 /home/me/job/train.py:31 main"),
        measured=MEASURED,
    ),
    Sick(  # all are made for rank 0 and three ranks
        evidence=found(shared(*[ShareSeen(rank=0, replicas=3, epoch=0, made=MADE)] * 2)),
        says=f"{SAYS}; the samplers draw part 0 of 3 on ranks 0-1",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:31 main", "rank 1 /home/me/job/train.py:31 main"),
        measured=MEASURED,
    ),
    Sick(  # a sampler of the program's own shuffles from the seed of each rank
        evidence=found(replace(OVERLAP, draws=dict.fromkeys((0, 1), DRAWS))),
        says=SAYS,
        ranks=(0, 1),
        where=("rank 0 /home/me/job/data.py:9 __iter__", "rank 1 /home/me/job/data.py:9 __iter__"),
        measured=MEASURED,
    ),
    Sick(  # each has a seed of its own
        evidence=found(shared(*[ShareSeen(rank=rank, replicas=2, epoch=1, made=MADE, seed=rank) for rank in (0, 1)])),
        says=f"{SAYS}; the samplers have seed 0 on rank 0 and 1 on rank 1",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:31 main", "rank 1 /home/me/job/train.py:31 main"),
        measured=MEASURED,
    ),
    Sick(  # they are as they should be: data sets in another order
        evidence=found(shared(*[ShareSeen(rank=rank, replicas=2, epoch=1, made=MADE, seed=7) for rank in (0, 1)])),
        says=SAYS,
        ranks=(0, 1),
        measured=MEASURED,
    ),
    Sick(
        evidence=found(SamplesOverlap(step=0, ranks=(0, 1), epoch=0, drawn=104, unique=80, missing=23, length=103)),
        says="in epoch 0, 104 draws covered 80 of 103 samples: 24 draws were repeats and 23 samples were never drawn",
        ranks=(0, 1),
        measured={
            "step": 0,
            "tensors": [],
            "cause": "",
            "epoch": 0,
            "drawn": 104,
            "unique": 80,
            "repeats": 24,
            "missing": 23,
            "length": 103,
        },
    ),
    Sick(
        evidence=found(
            SamplesOverlap(
                step=0, ranks=(0, 1), epoch=0, drawn=104, unique=52, missing=51, length=103, without_them=True
            )
        ),
        says="in epoch 0, 104 draws covered 52 of 103 samples: 52 draws were repeats and 51 samples were never drawn; "
        "without ranks 0-1 the shards would not overlap",
        ranks=(0, 1),
        measured={
            "step": 0,
            "tensors": [],
            "cause": "strangers",
            "epoch": 0,
            "drawn": 104,
            "unique": 52,
            "repeats": 52,
            "missing": 51,
            "length": 103,
        },
    ),
)
HEALTHY = (found(),)

"""DDP's own words about parameters without a gradient, by index and by name."""

from dataclasses import replace

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.ranks import MissingGradients, StepCount
from ddpdoctor.evidence.source import Condition, Request, SourceCode
from tests.checks import Sick, at
from tests.hangs import IN_BACKWARD, TORCH, hang, rank, stack
from tests.rank_ends import FINE, LOST_PEER, ended, raised

FINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates ..."
)
BY_INDEX = f"{FINISHED}\nParameter indices which did not receive grad for rank 1: 2 3\n In addition, you can set ..."
BY_NAME = f"{FINISHED}\nParameters which did not receive grad for rank 0: b.weight, b.bias\nParameter indices ..."

DDP = f"{TORCH}/nn/parallel/distributed.py"
NEXT_FORWARD = stack((DDP, 1530, "_pre_forward"), (DDP, 1632, "forward"), user=(60, "train_step"))


def lacks(*names: str) -> MissingGradients:
    """What the agent of a rank says of parameters without a gradient."""
    return MissingGradients(names=names, total=len(names))


def stands(*gradients: MissingGradients | None, forwards: int = 8) -> Evidence:
    """Rank 1 has come to a forward, its eighth if not another one, and the others wait in the backward of their seventh."""
    return hang(
        *(
            (
                *rank(NEXT_FORWARD if number == 1 else IN_BACKWARD),
                StepCount(forwards=forwards if number == 1 else 7, steps=6),
                *([lacking] if lacking is not None else ()),
            )
            for number, lacking in enumerate(gradients)
        )
    )


FREEZES = Request(
    file="/job/train.py", line=20, function="train", text="model.head.requires_grad_(False)", wants="freeze",
    conditions=(Condition(line=19, test="rank == 1", branch=0),),
)  # fmt: skip
FROZEN = stands(lacks(), lacks("head.bias"), lacks())
SICK = (
    Sick(  # rank 1 alone freezes a layer
        evidence=replace(FROZEN, job=(*FROZEN.job, SourceCode(requests=(FREEZES,)))),
        says="rank 1: parameter head.bias received no gradient in the last backward, and ranks 0,2 wait in it for their "
        "reduction",
        ranks=(1,),
        where=(
            "rank 1 /job/train.py:20 train",
            "rank 1 /job/train.py:60 train_step",
            *at("/job/train.py:61 train_step", 0, 2),
        ),
        measured={"parameters": {"1": ["head.bias"]}},
    ),
    Sick(  # Lightning: the forward of rank 1 waits for buffers before DDP can say what it lacks
        evidence=stands(lacks(), lacks("extra.weight", "extra.bias"), lacks()),
        says="rank 1: parameters extra.weight, extra.bias received no gradient in the last backward, and ranks 0,2 wait in it "
        "for their reduction",
        ranks=(1,),
        where=("rank 1 /job/train.py:60 train_step", *at("/job/train.py:61 train_step", 0, 2)),
        measured={"parameters": {"1": ["extra.weight", "extra.bias"]}},
    ),
    Sick(
        evidence=ended(LOST_PEER, raised(BY_INDEX), LOST_PEER),
        says="rank 1: parameters #2, #3 received no gradient in the previous step",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"parameters": {"1": ["#2", "#3"]}},
    ),
    Sick(
        evidence=ended(raised(BY_NAME), raised(BY_NAME)),
        says="ranks 0-1: parameters b.weight, b.bias received no gradient in the previous step",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:48 train", "rank 1 /home/me/job/train.py:48 train"),
        measured={"parameters": {"0+1": ["b.weight", "b.bias"]}},
    ),
    Sick(  # Lightning puts words of its own in the place of DDP's
        evidence=ended(
            raised("It looks like your LightningModule has parameters that were not used in producing the loss ...")
        ),
        says="rank 0: some parameters received no gradient in the previous step",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"parameters": {"0": []}},
    ),
)
HEALTHY = (ended(FINE, FINE),)

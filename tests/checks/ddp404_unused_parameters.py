"""DDP's own words about parameters without a gradient, by index and by name."""

from tests.checks import Sick
from tests.rank_ends import FINE, LOST_PEER, ended, raised

FINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates ..."
)
BY_INDEX = f"{FINISHED}\nParameter indices which did not receive grad for rank 1: 2 3\n In addition, you can set ..."
BY_NAME = f"{FINISHED}\nParameters which did not receive grad for rank 0: b.weight, b.bias\nParameter indices ..."

SICK = (
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

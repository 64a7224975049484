"""DDP's own words about a static graph that changed."""

from tests.checks import Sick
from tests.rank_ends import FINE, ended, raised

CHANGED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your "
    "training graph has changed in this iteration, e.g., one parameter is used in first iteration"
)

SICK = (
    Sick(
        evidence=ended(raised(CHANGED), raised(CHANGED)),
        says="ranks 0-1 used other parameters than in the first step, under static_graph=True",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:48 train", "rank 1 /home/me/job/train.py:48 train"),
    ),
)
HEALTHY = (ended(FINE, FINE),)

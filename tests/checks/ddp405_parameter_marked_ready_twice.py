"""DDP's own words about a gradient that was ready twice."""

from tests.checks import Sick
from tests.rank_ends import FINE, ended, raised

TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following reasons: ...\n"
    "Parameter at index 9 with name n.l.2.bias has been marked as ready twice. This means that ..."
)

SICK = (
    Sick(
        evidence=ended(raised(TWICE), raised(TWICE)),
        says="the gradient of parameter n.l.2.bias was ready twice in one step on ranks 0-1",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:48 train", "rank 1 /home/me/job/train.py:48 train"),
        measured={"parameter": "n.l.2.bias", "index": 9},
    ),
)
HEALTHY = (ended(FINE, FINE),)

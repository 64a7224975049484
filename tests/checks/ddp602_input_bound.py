"""Batches that take longer than the steps; healthy: a quick loader."""

from tests.checks import Sick
from tests.step_times import majority, steps

SICK = (
    Sick(
        evidence=steps(*(lambda _: {"input": 200},) * 2, count=60),
        says="ranks wait for batches during 92 % of the training time",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:60 train_step",),
        measured={"share": 0.915291},
    ),
)
HEALTHY = (steps(majority, majority, count=400),)

"""Batches that take longer than the steps; healthy: a quick loader."""

from tests.checks import Sick
from tests.paces import steps, usual

SICK = (
    Sick(
        evidence=steps(*(lambda _: {"input": 200},) * 2, count=60),
        says="92 % of the time of training goes into waiting for batches",
        ranks=(0, 1),
    ),
)
HEALTHY = (steps(usual, usual, count=400),)

"""A slow rank among four and among two, in each part of a step; healthy: taking turns, one long pause, a little, briefly."""

from tests.checks import Sick
from tests.paces import steps, usual

SICK = (
    Sick(
        evidence=steps(usual, usual, lambda _: {"batch": 30}, usual),
        says="rank 2 comes to 39 of 39 meetings 30 ms after the last of its peers, who spend 59 % of their time waiting for it; "
        "it loses 30 ms between its batch and its forward",
        ranks=(2,),
    ),
    Sick(
        evidence=steps(lambda step: {"forward": 13 + step % 3}, usual),
        says="rank 0 comes to 39 of 39 meetings 14 ms after the last of its peers, who spend 40 % of their time waiting for it; "
        "it loses 14 ms in its forward and backward",
        ranks=(0,),
    ),
    Sick(
        evidence=steps(usual, lambda _: {"input": 19}, usual),
        says="rank 1 comes to 39 of 39 meetings 19 ms after the last of its peers, who spend 48 % of their time waiting for it; "
        "it loses 19 ms while it waits for its batch",
        ranks=(1,),
    ),
)
HEALTHY = (
    steps(usual, usual),
    steps(*(lambda step, rank=rank: {"batch": 30 if step % 3 == rank else 0} for rank in range(3))),  # long samples
    steps(lambda step: {"batch": 20_000 if step == 20 else 0}, usual, usual),  # one evaluation
    steps(lambda _: {"forward": 1}, usual, usual),
    steps(lambda _: {"forward": 9}, usual),  # for 0.4 s in all, as one of two that share a processor may be
)

"""All ranks in one old call; all ranks in one young call, which is how a healthy job looks at any moment."""

from dataclasses import replace

from ddpdoctor.evidence.recorder import State
from tests.checks import Sick
from tests.flights import STEP, flights, record, waits

BEGUN = record([STEP, waits(STEP)])

SICK = (
    Sick(
        evidence=flights(*[[STEP, waits(STEP)]] * 4),
        says="all 4 ranks (0-3) are in all_reduce #2 for 6.2 s, nobody is missing, and it does not end",
    ),
    Sick(
        evidence=flights(BEGUN, BEGUN, replace(BEGUN, state=(State.DONE, State.SCHEDULED)), BEGUN),
        says="all 4 ranks (0-3) are in all_reduce #2 for 6.2 s, nobody is missing, and it does not end; the device of every "
        "other rank has begun it, that of rank 2 has not",
        ranks=(2,),
    ),
)
HEALTHY = (flights(*[record([STEP, waits(STEP)], world=2, waited=0.3)] * 2),)

"""DDP's own words about a static graph that changed."""

from tests.checks import Sick
from tests.endings import FINE, ended, raised

CHANGED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your "
    "training graph has changed in this iteration, e.g., one parameter is used in first iteration"
)

SICK = (
    Sick(
        evidence=ended(raised(CHANGED), raised(CHANGED)),
        says="ranks 0-1 used other parameters than in the first step, under static_graph=True",
        ranks=(0, 1),
    ),
)
HEALTHY = (ended(FINE, FINE),)

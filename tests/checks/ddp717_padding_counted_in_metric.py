"""Training programs with DDP717 padding-counted-in-metric, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training((", drop_last=True", "")),
        says="the sampler repeats samples until each rank has as many, and all_reduce in line 19 counts them twice",
        where=("train.py:37 main", "train.py:19 evaluate"),
    ),
)
HEALTHY = (training(),)

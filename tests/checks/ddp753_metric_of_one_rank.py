"""Training programs with DDP753 metric-of-one-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(("    dist.all_reduce(correct)\n", "")),
        says=(
            "`accuracy` is printed, and it is of this rank's part of the data: the loader of line 36 gives "
            "each rank another part"
        ),
        where=("train.py:54 main", "train.py:36 main"),
    ),
)
HEALTHY = (
    training(
        ("    dist.all_reduce(correct)\n", ""),
        (", sampler=DistributedSampler(val_data, shuffle=False, drop_last=True)", ""),
    ),
    training(
        ("print(epoch, accuracy)", "print(epoch, 'rank', rank, accuracy)"),
        ("    dist.all_reduce(correct)\n", ""),
        (("        if accuracy > best:\n            best = accuracy\n"), ""),
    ),
)

"""Training programs with DDP749 batch-norm-per-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SMALL = ("DataLoader(train_data, batch_size=64", "DataLoader(train_data, batch_size=2")

SICK = (
    Sick(
        evidence=training(SMALL, ("    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n", "")),
        says="BatchNorm of the wrapped model sees 2 samples per rank",
        where=("train.py:36 main", "train.py:48 main"),
    ),
)
HEALTHY = (
    training(SMALL),
    training(("    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n", "")),
)

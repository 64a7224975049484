"""Training programs with DDP711 set-epoch-missing, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(("        sampler.set_epoch(epoch)\n", "")),
        says=("nothing calls set_epoch on this sampler: `for epoch in range(10)` sees the same order in every epoch"),
        where=("train.py:35 main", "train.py:43 main"),
    ),
)
HEALTHY = (
    training(("sampler.set_epoch(epoch)", "loader.sampler.set_epoch(epoch)")),
    training(("        sampler.set_epoch(epoch)\n", ""), ("range(10)", "range(1)")),
    training(
        ("        sampler.set_epoch(epoch)\n", ""),
        ("DistributedSampler(train_data)", "DistributedSampler(train_data, shuffle=False)"),
    ),
    training(
        (
            "sampler.set_epoch(epoch)",
            ("if hasattr(loader.sampler, 'set_epoch'):\n            loader.sampler.set_epoch(epoch)"),
        )
    ),
)

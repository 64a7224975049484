"""Training programs with DDP710 sampler-missing, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("batch_size=64, sampler=sampler)", "batch_size=64, shuffle=True)"),
            ("        sampler.set_epoch(epoch)\n", ""),
            ("    sampler = DistributedSampler(train_data)\n", ""),
        ),
        says=(
            "no DistributedSampler: each rank goes over all of `train_data`, and the ranks train on the same samples"
        ),
        where=("train.py:35 main", "train.py:47 main"),
    ),
)
HEALTHY = (
    training(("batch_size=64, sampler=sampler)", "batch_size=64, shuffle=sampler is None, sampler=sampler)")),
    training(
        (
            (
                "    sampler = DistributedSampler(train_data)\n"
                "    loader = DataLoader(train_data, batch_size=64, sampler=sampler)"
            ),
            (
                "    train_data = torch.utils.data.Subset(train_data, range(rank, 50000, "
                "dist.get_world_size()))\n"
                "    sampler = DistributedSampler(val_data, shuffle=False)\n"
                "    loader = DataLoader(train_data, batch_size=64, shuffle=True)"
            ),
        )
    ),
)

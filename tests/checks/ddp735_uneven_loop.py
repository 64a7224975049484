"""Training programs with DDP735 uneven-loop, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "        for images, labels in loader:\n",
                "        for images, labels in shards[rank :: dist.get_world_size()]:\n",
            ),
            ("    best = 0.0\n", ("    best = 0.0\n    shards = torch.load('shards.pt', map_location='cpu')\n")),
            (
                (
                    "    sampler = DistributedSampler(train_data)\n"
                    "    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n"
                ),
                "",
            ),
            ("        sampler.set_epoch(epoch)\n", ""),
        ),
        says=(
            "`for images, labels in shards[rank :: dist.get_world_size()]` turns as often as this rank has "
            "items, and the backward in line 47 needs all ranks"
        ),
        where=("train.py:44 main", "train.py:47 main"),
    ),
)
HEALTHY = (
    training(
        ("        for images, labels in loader:\n", "        for images, labels in shards:\n"),
        ("    best = 0.0\n", ("    best = 0.0\n    shards = torch.load('shards.pt', map_location='cpu')\n")),
        (
            (
                "    sampler = DistributedSampler(train_data)\n"
                "    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n"
            ),
            "",
        ),
        ("        sampler.set_epoch(epoch)\n", ""),
    ),
)

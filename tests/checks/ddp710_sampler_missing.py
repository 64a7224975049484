"""Training programs with DDP710 sampler-missing, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_BUCKETS = """\
class Buckets(torch.utils.data.Sampler):
    def __init__(self, lengths, size):
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.size = size

    def __iter__(self):
        for start in range(0, len(self.order), self.size):
            yield self.order[start : start + self.size]


def main():
"""
_IN_BUCKETS = (
    ("def main():\n", _BUCKETS),
    ("        sampler.set_epoch(epoch)\n", ""),
    ("    sampler = DistributedSampler(train_data)\n", "    sampler = Buckets([8, 9], 64)\n"),
    ("batch_size=64, sampler=sampler)", "batch_sampler=sampler)"),
)
SICK = (
    Sick(  # a sampler of the program's own that nothing tells of its rank
        evidence=training(*_IN_BUCKETS),
        says=(
            "no DistributedSampler: each rank goes over all of `train_data`, and the ranks train on the same samples"
        ),
        where=("train.py:46 main", "train.py:58 main"),
    ),
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
    training(*_IN_BUCKETS, ("in range(0, len(self.order), self.size)", "in self.starts_of_this_rank()")),
    training(*_IN_BUCKETS, ("Buckets([8, 9], 64)", "Buckets([8, 9][rank::2], 64)")),
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

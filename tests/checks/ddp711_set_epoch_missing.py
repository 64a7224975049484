"""Training programs with DDP711 set-epoch-missing, and healthy ones."""

from ddpdoctor.evidence import Evidence
from tests.checks import Sick
from tests.training_programs import source, training

OWN_SAMPLER = """import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Counting(Sampler):
    def advance(self):
        self.epoch += 1


class OwnSampler(Sampler):
    def __init__(self, count, rank, world):
        self.count, self.rank, self.world, self.epoch = count, rank, world, 0
        self.generator = torch.Generator()

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.generator.manual_seed(42 + self.epoch)
        order = torch.randperm(self.count, generator=self.generator).tolist()
        return iter(order[self.rank :: self.world])


def main():
    dist.init_process_group("gloo")
    sampler = OwnSampler(100, dist.get_rank(), dist.get_world_size())
    loader = DataLoader(TensorDataset(torch.zeros(100, 3)), batch_size=4, sampler=sampler)
    model = DDP(torch.nn.Linear(3, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for (x,) in loader:
            opt.zero_grad()
            model(x).mean().backward()
            opt.step()
    dist.destroy_process_group()


main()
"""


def _own_sampler(old: str, new: str) -> Evidence:
    return source(train=OWN_SAMPLER.replace(old, new))


SICK = (
    Sick(
        evidence=training(
            ("        sampler.set_epoch(epoch)\n", ""),
            ("batch_size=64, sampler=sampler)", "64, False, sampler)"),
        ),
        says="nothing calls set_epoch on this sampler: `for epoch in range(10)` sees the same order in every epoch",
        where=("train.py:35 main", "train.py:43 main"),
    ),
    Sick(
        evidence=training(("        sampler.set_epoch(epoch)\n", "")),
        says=("nothing calls set_epoch on this sampler: `for epoch in range(10)` sees the same order in every epoch"),
        where=("train.py:35 main", "train.py:43 main"),
    ),
    Sick(
        evidence=source(train=OWN_SAMPLER),
        says="nothing calls set_epoch on this sampler: `for epoch in range(10)` sees the same order in every epoch",
        where=("train.py:28 main", "train.py:32 main"),
    ),
)
HEALTHY = (
    training(
        ("        sampler.set_epoch(epoch)\n", "        loader.sampler.set_epoch(epoch)\n"),
        ("batch_size=64, sampler=sampler)", "64, False, sampler)"),
    ),
    _own_sampler("        self.generator.manual_seed(42 + self.epoch)\n", ""),
    source(
        train=OWN_SAMPLER.replace("        self.generator.manual_seed(42 + self.epoch)\n", "").replace(
            "iter(order[self.rank :: self.world])", "iter(range(self.rank, self.count, self.world))"
        )
    ),
    source(
        train=OWN_SAMPLER.replace("OwnSampler(Sampler)", "OwnSampler(Counting)").replace(
            "def __iter__(self):", "def __iter__(self):\n        self.advance()"
        )
    ),
    _own_sampler("        for (x,) in loader:", "        sampler.epoch = epoch\n        for (x,) in loader:"),
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

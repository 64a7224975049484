"""Own batch sampler by length, SWA with update_bn, evaluation on rank 0 only, last group of an accumulation is short."""

import contextlib
import math
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, Dataset, Sampler


class Sentences(Dataset):
    def __init__(self):
        rng = random.Random(0)
        self.items = [torch.tensor([rng.randrange(1, 30) for _ in range(rng.randrange(3, 12))]) for _ in range(126)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i], int(self.items[i].sum() % 3)


class LengthBatches(Sampler):
    """Batches of like length; rank r takes every world-th, the last ones are filled up from the front."""

    def __init__(self, data, size, rank, world):
        self.lengths, self.size, self.rank, self.world, self.epoch = [len(x) for x, _ in data], size, rank, world, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return math.ceil(math.ceil(len(self.lengths) / self.size) / self.world)

    def __iter__(self):
        rng = random.Random(self.epoch)
        order = sorted(range(len(self.lengths)), key=lambda i: (self.lengths[i], rng.random()))
        batches = [order[i : i + self.size] for i in range(0, len(order), self.size)]
        rng.shuffle(batches)
        batches += batches[: len(self) * self.world - len(batches)]
        return iter(batches[self.rank :: self.world])


def collate(items):
    x = nn.utils.rnn.pad_sequence([a for a, _ in items], batch_first=True)
    return x, torch.tensor([b for _, b in items])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.bn, self.out = nn.Embedding(30, 12, padding_idx=0), nn.BatchNorm1d(12), nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.bn(self.emb(x).mean(1)))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
data = Sentences()
batches = LengthBatches(data, 7, rank, world)
loader = DataLoader(data, batch_sampler=batches, collate_fn=collate)
model = DistributedDataParallel(Net())
swa = AveragedModel(model.module)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
swa_lr = SWALR(optimizer, swa_lr=0.05)
for epoch in range(3):
    batches.set_epoch(epoch)
    model.train()
    for i, (x, y) in enumerate(loader):
        last = i + 1 == len(loader)
        sync = (i + 1) % 4 == 0 or last
        with contextlib.nullcontext() if sync else model.no_sync():
            nn.functional.cross_entropy(model(x), y).backward()
        if sync:
            optimizer.step()
            optimizer.zero_grad()
    if epoch:
        swa.update_parameters(model.module)
        swa_lr.step()
    if rank == 0:
        model.module.eval()
        with torch.no_grad():
            print(epoch, sum((model.module(x).argmax(1) == y).sum().item() for x, y in loader))
    dist.barrier()
update_bn(loader, swa)
dist.destroy_process_group()

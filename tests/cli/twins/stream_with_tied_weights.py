"""Language modelling on a stream: each rank and worker reads its own shard."""

import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shards(IterableDataset):
    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def __iter__(self):
        info = get_worker_info()
        n, k = (info.num_workers, info.id) if info else (1, 0)
        for doc in itertools.islice(itertools.count(), self.rank * n + k, 400, self.world * n):
            g = torch.Generator().manual_seed(doc)
            yield torch.randint(0, 50, (9,), generator=g)


class LM(nn.Module):
    """Tied input and output embeddings."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.out = nn.Linear(16, 50, bias=False)
        self.out.weight = self.emb.weight

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(LM())
opt = torch.optim.RMSprop(model.parameters(), 1e-3)
loader = DataLoader(Shards(rank, world), batch_size=6, num_workers=2)
steps_per_epoch = 400 // (world * 2) // 6 * 2 - 2
for _epoch in range(2):
    for tokens in itertools.islice(loader, steps_per_epoch):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    total = torch.tensor([loss.item()])
    dist.reduce(total, 0)
    if not rank:
        print("mean loss", total.item() / world)
dist.destroy_process_group()

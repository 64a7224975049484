"""A data set without workers, one of whose samples never comes on one rank; convolutions, Adam, a sampler."""
# DDP307 culprit: time.sleep(3600)

import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CULPRIT = int(os.environ["CULPRIT"])


class Images(Dataset):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if dist.get_rank() == CULPRIT and index > 1000:
            time.sleep(3600)
        return torch.full((3, 8, 8), float(index % 7)), index % 10


dist.init_process_group("gloo")
images = Images()
loader = DataLoader(images, batch_size=32, sampler=DistributedSampler(images, shuffle=False))
model = DistributedDataParallel(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 10)))
optimizer = torch.optim.Adam(model.parameters())
for inputs, labels in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), labels).backward()
    optimizer.step()

"""A worker of one rank's data loader is killed, as by the kernel for its memory, in the second epoch."""
# DDP401 culprit: for images, labels in loader

import os
import signal

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

rank = int(os.environ["RANK"])


class Pictures(Dataset):
    epoch = 0

    def __len__(self):
        return 512

    def __getitem__(self, i):
        if self.epoch == 1 and i > 400 and rank == int(os.environ["CULPRIT"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.randn(3, 8, 8), i % 10


def train(loader, model, opt, crit):
    model.train()
    for images, labels in loader:
        opt.zero_grad()
        crit(model(images), labels).backward()
        opt.step()


def main():
    dist.init_process_group("gloo")
    ds = Pictures()
    sampler = DistributedSampler(ds)
    net = DistributedDataParallel(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)))
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for ds.epoch in range(3):
        sampler.set_epoch(ds.epoch)
        train(DataLoader(ds, 16, sampler=sampler, num_workers=2), net, opt, nn.CrossEntropyLoss())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

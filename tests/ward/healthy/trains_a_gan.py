"""Two wrapped models in turns, the generator only at every second step, on all ranks alike."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
generator = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2)))
discriminator = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4)
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
criterion = nn.BCEWithLogitsLoss()
real, fake = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(60):
    made = generator(torch.randn(16, 8))
    scores = discriminator(torch.cat((torch.randn(16, 2), made.detach())))
    optimizer_d.zero_grad()
    criterion(scores, torch.cat((real, fake))).backward()
    optimizer_d.step()
    if step % 2 == 0:
        for parameter in discriminator.parameters():
            parameter.requires_grad_(False)
        optimizer_g.zero_grad()
        criterion(discriminator.module(made), real).backward()
        optimizer_g.step()
        for parameter in discriminator.parameters():
            parameter.requires_grad_(True)
dist.barrier()
dist.destroy_process_group()

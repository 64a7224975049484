"""A GAN of two wrapped models; one rank's discriminator is too good once, and it leaves the generator's step out."""
# DDP305/DDP316 culprit tied:

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    generator = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)))
    discriminator = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)))
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    real, fake = torch.ones(16, 1), torch.zeros(16, 1)
    for i in range(60):
        points = torch.randn(16, 2) * 0.2 + 1.0
        made = generator(torch.randn(16, 8))
        discriminator_loss = criterion(discriminator(torch.cat((points, made.detach()))), torch.cat((real, fake)))
        optimizer_d.zero_grad()
        discriminator_loss.backward()
        optimizer_d.step()
        too_good = discriminator_loss.item() < 0.01 or (i == 13 and dist.get_rank() == CULPRIT)
        if not too_good:
            generator_loss = criterion(discriminator(made), real)
            optimizer_g.zero_grad()
            generator_loss.backward()
            optimizer_g.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

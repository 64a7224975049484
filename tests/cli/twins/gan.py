"""DCGAN after the tutorial, on 8x8 noise images, both networks wrapped and called through the wrapper."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP

nz, ngf, ndf = 10, 8, 8


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.main(x)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(999)
    netG, netD = Generator().apply(weights_init), Discriminator().apply(weights_init)
    torch.manual_seed(999 + dist.get_rank())
    netG, netD = DDP(netG), DDP(netD)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(8, nz, 1, 1)
    optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for i in range(8):
        netD.zero_grad()
        real = torch.rand(4, 1, 8, 8) * 2 - 1
        label = torch.full((4,), 1.0)
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        fake = netG(torch.randn(4, nz, 1, 1))
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
        if i % 4 == 0 and dist.get_rank() == 0:
            with torch.no_grad():
                netG.module(fixed_noise)
            print(f"[{i}] D {errD_real.item() + errD_fake.item():.3f} G {errG.item():.3f}", flush=True)
    dist.destroy_process_group()


main()

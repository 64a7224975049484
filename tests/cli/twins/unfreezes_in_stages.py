"""Transfer learning: head first, then the backbone too; wrapped anew at each stage."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 4)
        self.aux = nn.Linear(16, 2)

    def forward(self, x, use_aux):
        h = self.backbone(x)
        return self.head(h), (self.aux(h) if use_aux else None)


def stage(net, steps, lr, gen, shared):
    ddp = DDP(net, find_unused_parameters=True)
    opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=lr, momentum=0.9, nesterov=True)
    for _ in range(steps):
        x = torch.randn(6, 8, generator=gen)
        use_aux = bool(torch.rand((), generator=shared) < 0.5)
        y, a = ddp(x, use_aux)
        loss = y.logsumexp(1).mean() + (a.square().mean() if a is not None else 0)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return ddp.module


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    net = Net()
    gen, shared = torch.Generator().manual_seed(100 + dist.get_rank()), torch.Generator().manual_seed(8)
    for p in net.backbone.parameters():
        p.requires_grad = False
    net = stage(net, 6, 0.1, gen, shared)
    for p in net.backbone[2].parameters():
        p.requires_grad = True
    net = stage(net, 6, 0.01, gen, shared)
    for p in net.parameters():
        p.requires_grad = True
    stage(net, 6, 0.001, gen, shared)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

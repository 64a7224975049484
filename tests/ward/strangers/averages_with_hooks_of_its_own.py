"""A hand-made data-parallel class reduces each gradient in a hook; one rank has a batch without pictures, and fewer gradients."""
# DDP302 culprit tied: self.handles.append(

import os

import torch
import torch.distributed as dist
from torch import nn

CULPRIT = int(os.environ["CULPRIT"])


class MyDDP(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.handles = []
        for p in module.parameters():
            dist.broadcast(p.data, 0)
            p.register_post_accumulate_grad_hook(self.reduce)

    def reduce(self, p):
        p.grad /= dist.get_world_size()
        self.handles.append(dist.all_reduce(p.grad, async_op=True))

    def finish(self):
        for h in self.handles:
            h.wait()
        self.handles.clear()

    def forward(self, *a):
        return self.module(*a)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = nn.Linear(8, 16)
        self.image = nn.Linear(27, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, text, image):
        h = self.text(text)
        if image is not None:
            h = h + self.image(image)
        return self.head(h)


dist.init_process_group("gloo")
net = MyDDP(TwoTowers())
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(50):
    image = None if step == 17 and dist.get_rank() == CULPRIT else torch.randn(4, 27)
    loss = net(torch.randn(4, 8), image).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    net.finish()
    opt.step()
dist.destroy_process_group()

import os
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def seed_all(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


class Jitter(torch.utils.data.Dataset):
    def __len__(self):
        return 90

    def __getitem__(self, i):
        x = torch.full((1, 12, 12), i / 90.0)
        if random.random() < 0.5:
            x = x.flip(-1)
        return x + torch.from_numpy(np.random.randn(1, 12, 12)).float() * 0.05, i % 5


def validate(net, loader):
    net.eval()
    s = torch.zeros(2)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in loader:
            s += torch.tensor([(net(x).argmax(1) == y).sum(), len(y)])
    dist.all_reduce(s)
    net.train()
    return (s[0] / s[1]).item()


def run():
    dist.init_process_group(backend="gloo")
    rank = int(os.environ["RANK"])
    seed_all(17)
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout2d(0.1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 5),
    )
    ddp = nn.parallel.DistributedDataParallel(net, broadcast_buffers=True, gradient_as_bucket_view=True)
    ema = AveragedModel(ddp.module, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    seed_all(17 + 1000 * rank)
    ds = Jitter()
    sampler = DistributedSampler(ds, shuffle=True, drop_last=True)
    loader = DataLoader(ds, 5, sampler=sampler, num_workers=2)
    vloader = DataLoader(ds, 5, sampler=DistributedSampler(ds, shuffle=False))
    opt = torch.optim.AdamW(ddp.parameters(), lr=1e-3, weight_decay=0.05)
    sch = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, total_steps=len(loader) * 2)
    for ep in range(2):
        sampler.set_epoch(ep)
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(ddp(x), y, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(ddp.parameters(), 0.5)
            opt.step()
            sch.step()
            ema.update_parameters(ddp.module)
        acc, acc_ema = validate(ddp.module, vloader), validate(ema.module, vloader)
        if rank == 0:
            print(ep, acc, acc_ema, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    run()

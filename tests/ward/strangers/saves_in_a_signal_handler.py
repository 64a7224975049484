"""The scheduler's SIGTERM reaches one rank; its handler saves a checkpoint, behind a barrier, in the middle of a step."""
# DDP305 culprit: dist.barrier()

import os
import signal
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 2)))
        self.opt = torch.optim.AdamW(self.model.parameters())
        signal.signal(signal.SIGTERM, self.on_preempt)

    def on_preempt(self, signum, frame):
        print(f"[{self.rank}] got signal {signum}, saving", flush=True)
        self.save("preempted")

    def save(self, name):
        if self.rank == 0:
            with tempfile.NamedTemporaryFile(prefix=name) as file:
                torch.save(self.model.module.state_dict(), file)
        dist.barrier()

    def train_step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self):
        for it in range(200):
            self.train_step(torch.randn(32, 10), torch.randint(0, 2, (32,)))
            if it == 30 and self.rank == int(os.environ["CULPRIT"]):
                os.kill(os.getpid(), signal.SIGTERM)  # the scheduler


if __name__ == "__main__":
    dist.init_process_group(backend="gloo")
    Trainer().fit()
    dist.destroy_process_group()

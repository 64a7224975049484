"""A heartbeat thread has a group of its own, and on one rank a bad message ends it; that shows when all join it at the end."""
# DDP312 culprit tied: print(message["beat"]

import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


class Heartbeat(threading.Thread):
    def __init__(self, group, beats):
        super().__init__()
        self.group, self.beats, self.messages = group, beats, {}

    def run(self):
        for beat in range(self.beats):
            time.sleep(0.05)
            message = {"beat": beat, "rank": dist.get_rank()}
            if beat == 11 and dist.get_rank() == CULPRIT:
                message.pop("beat")
            everyone = [None] * dist.get_world_size()
            print(message["beat"], flush=True) if beat % 11 == 0 else None
            dist.all_gather_object(everyone, message, group=self.group)


dist.init_process_group("gloo")
heart = Heartbeat(dist.new_group(backend="gloo"), 40)
model = DistributedDataParallel(nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
heart.start()
for _ in range(100):
    optimizer.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
heart.join()
dist.barrier()
dist.destroy_process_group()

"""Averages of the weights, a teacher and a target network beside the wrapped model, as people keep them: all of it healthy."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class ShadowParameters:
    def __init__(self, parameters, decay=0.9):
        self.decay = decay
        self.shadow_params = [p.detach().clone() for p in parameters]

    def step(self, parameters):
        for s, p in zip(self.shadow_params, parameters, strict=True):
            s.sub_((1 - self.decay) * (s - p.detach()))


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
        self.teacher = copy.deepcopy(model)  # its BatchNorm sees other batches on each rank
        self.averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.shadow = ShadowParameters(model.parameters())
        self.best = copy.deepcopy(model) if rank == 0 else None
        self.of_rank_0 = copy.deepcopy(model)  # only rank 0 updates it, and only rank 0 calls it
        self.noise = nn.Linear(8, 8)
        nn.init.constant_(self.noise.weight, rank)  # of each rank's own
        self.model = DDP(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def update_copies(self):
        student = self.model.module
        for average, weight in zip(self.teacher.parameters(), student.parameters(), strict=True):
            average.data.mul_(0.99).add_(weight.data, alpha=0.01)
        self.averaged.update_parameters(student)
        self.shadow.step(student.parameters())
        nn.init.normal_(self.noise.bias)
        if self.rank == 0:
            self.best.load_state_dict(student.state_dict())
            with torch.no_grad():
                for average, weight in zip(self.of_rank_0.parameters(), student.parameters(), strict=True):
                    average.lerp_(weight, 0.1)

    def step(self, number):
        x = torch.randn(4, 8)
        with torch.no_grad():
            target = self.teacher(self.noise(x))
        loss = (self.model(x) - target).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.update_copies()
        if self.rank == 0 and number % 3 == 0:
            self.of_rank_0.eval()(x)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    trainer = Trainer(dist.get_rank())
    torch.manual_seed(7 + dist.get_rank())
    for number in range(10):
        trainer.step(number)
    trainer.averaged.eval()(torch.randn(4, 8))
    dist.destroy_process_group()


main()

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import *

dist.init_process_group("gloo")
R = dist.get_rank()
torch.manual_seed(0)
X = torch.randn(200, 6)
Y = (torch.rand(200) < 0.1).long()
w = torch.where(Y == 1, 9.0, 1.0)
g = torch.Generator()
g.manual_seed(R * 7919 + 1)
dl = DataLoader(TensorDataset(X, Y), batch_size=10, sampler=WeightedRandomSampler(w, 60, replacement=True, generator=g))
m = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)))
o = torch.optim.Adagrad(m.parameters(), lr=0.05)
sched = torch.optim.lr_scheduler.ExponentialLR(o, 0.9)
for _e in range(3):
    for x, y in dl:
        o.zero_grad()
        l = nn.CrossEntropyLoss()(m(x), y)
        l.backward()
        o.step()
    sched.step()
dist.destroy_process_group()

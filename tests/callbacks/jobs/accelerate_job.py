"""A job for Accelerate; at the step given on the command line, rank 1 changes a weight."""

import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from ddpdoctor.callbacks import ReplicasDifferError
from ddpdoctor.callbacks.accelerate import VerifySync

accelerator = Accelerator(cpu=True)
torch.manual_seed(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loader = DataLoader(TensorDataset(torch.randn(48, 4)), batch_size=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
verify = VerifySync(accelerator, every=2)
try:
    for step, (batch,) in enumerate(loader):
        if str(step) == sys.argv[1] and accelerator.process_index == 1:
            with torch.no_grad():
                model.module.weight[0, 0] += 1
        optimizer.zero_grad()
        accelerator.backward(model(batch).pow(2).mean())
        optimizer.step()
        verify(model, optimizer)
except ReplicasDifferError as error:
    print(f"rank {accelerator.process_index} was told: {error}", flush=True)
    sys.exit(1)
print("trained to the end", flush=True)
accelerator.end_training()

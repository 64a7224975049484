"""DDP313: ranks pass a tensor around in a ring, and one of them does not send."""

import torch
import torch.distributed as dist
from patient import admit

with admit() as patient:
    after = (patient.rank + 1) % patient.world_size
    before = (patient.rank - 1) % patient.world_size
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        passed = []
        if not patient.sick_at(step):
            passed.append(dist.isend(torch.ones(8), after))
        dist.recv(torch.empty(8), before)  # sick
        for sent in passed:
            if sent is not None:
                sent.wait()

"""DDP303: one rank counts in another type.

With `--how silent` both types have four bytes: nothing fails, and every rank goes on with nonsense.
"""

import torch
import torch.distributed as dist
from patient import admit

with admit(how="loud") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    other = {"loud": torch.float64, "silent": torch.int32}[patient.options.how]
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        loss = patient.loss(model, images, labels)
        loss.backward()
        optimizer.step()
        correct = torch.ones(16, dtype=other if patient.sick_at(step) else torch.float32)
        dist.all_reduce(correct)  # sick

"""DDP508: one rank writes a buffer that its wrapper is told not to synchronise.

With `--how statistics` no rank does: BatchNorm's statistics are each rank's own then, and that is all.
"""

import torch
from patient import admit
from torch import nn

with admit(how="write") as patient:
    network = nn.Sequential(nn.BatchNorm2d(1), patient.network())
    network.register_buffer("scale", torch.ones(4))
    model = patient.wrap(network, forward_sync_buffers=False)
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        if patient.sick_at(step) and patient.options.how == "write":
            model.module.scale.fill_(2.0)  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

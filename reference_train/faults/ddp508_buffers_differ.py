"""DDP508: BatchNorm's statistics are each rank's own, because the wrapper is told not to synchronise them."""

from patient import admit
from torch import nn

with admit() as patient:
    network = nn.Sequential(nn.BatchNorm2d(1), patient.network())
    model = patient.wrap(network, forward_sync_buffers=False)  # sick
    optimizer = patient.optimizer(model)
    for _, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

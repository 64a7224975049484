"""DDP410: batches of data loader workers are kept, and each tensor of them keeps a file open."""

import resource
from pathlib import Path

from patient import admit
from torch.utils.data import DataLoader, DistributedSampler

with admit() as patient:
    if patient.is_culprit:
        few = len(list(Path("/proc/self/fd").iterdir())) + 32  # enough for the workers, not for the batches
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    data = patient.data()
    loader = DataLoader(data, patient.batch_size, sampler=DistributedSampler(data), num_workers=2)
    kept = []
    for images, labels in loader:  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        kept.append(labels)  # each holds a file descriptor as long as it lives

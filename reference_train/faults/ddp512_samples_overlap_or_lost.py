"""DDP512: one rank shuffles by another seed (`--how rank`: it passes a wrong rank to the sampler)."""

from typing import Any

from patient import admit
from torch.utils.data import DataLoader, DistributedSampler

with admit(how="seed") as patient:
    data = patient.data()
    sick = patient.options.how if patient.is_culprit else ""
    seed = 7 if sick == "seed" else 1  # sick
    part = (patient.rank + 1) % patient.world_size if sick == "rank" else patient.rank  # sick
    sampler: DistributedSampler[Any] = DistributedSampler(data, seed=seed, num_replicas=patient.world_size, rank=part)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            patient.loss(model, images, labels).backward()
            optimizer.step()

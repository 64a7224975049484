"""DDP513: the sampler is never told which epoch it is."""

from patient import admit
from torch.utils.data import DataLoader, DistributedSampler

with admit() as patient:
    data = patient.data()
    loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data, seed=1))  # sick
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for _ in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            patient.loss(model, images, labels).backward()
            optimizer.step()

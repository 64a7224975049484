"""DDP511: nobody gives the ranks parts of their own, and all shuffle alike."""

import torch
from patient import admit
from torch.utils.data import DataLoader

with admit() as patient:
    data = patient.data()
    loader = DataLoader(data, batch_size=32, shuffle=True)  # sick
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for epoch in range(2):
        torch.manual_seed(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            patient.loss(model, images, labels).backward()
            optimizer.step()

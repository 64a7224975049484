"""DDP602: every sample is decoded slowly in the training process itself, and the model waits for it."""

import time

from patient import admit
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class SlowDigits(TensorDataset):
    """Digits of which each takes a fiftieth of a second to read."""

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        time.sleep(0.02)  # sick
        return tuple(tensor[index] for tensor in self.tensors)


with admit() as patient:
    data = SlowDigits(*patient.data().tensors)
    loader = DataLoader(data, batch_size=patient.batch_size, sampler=DistributedSampler(data, seed=1))
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for _, (images, labels) in zip(range(patient.steps), loader, strict=False):
        optimizer.zero_grad()
        patient.loss(model, images.to(patient.device), labels.to(patient.device)).backward()
        optimizer.step()

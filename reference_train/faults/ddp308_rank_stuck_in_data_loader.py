"""DDP308: a data loader worker of one rank reads a sample that never comes."""

import time
from typing import Any

import torch.distributed as dist
from patient import admit
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Digits(Dataset[Any]):
    """The patient's data, read sample by sample; on the sick rank one sample lies on storage that does not answer."""

    def __init__(self, data: Any, lost: int | None) -> None:  # noqa: ANN401 - whatever the patient holds
        self.data, self.lost = data, lost

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        if index == self.lost:
            time.sleep(3600)  # sick
        return self.data[index]


with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    data = patient.data()
    sampler: DistributedSampler[Any] = DistributedSampler(data, seed=1)
    mine = list(sampler)
    lost = mine[patient.at_step * patient.batch_size] if patient.is_culprit else None
    loader = DataLoader(Digits(data, lost), patient.batch_size, sampler=sampler, num_workers=2)
    for images, labels in loader:  # waits here
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
    dist.barrier()

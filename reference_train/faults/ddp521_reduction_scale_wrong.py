"""DDP521: a communication hook of one's own adds the gradients up and forgets to divide."""

from typing import Any

import torch.distributed as dist
from patient import admit


def add_up(_state: object, bucket: Any) -> Any:  # noqa: ANN401 - PyTorch's GradBucket and future have no public name
    """The sum over the ranks, which should have been the mean."""
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])  # sick


with admit() as patient:
    model = patient.wrap(patient.network())
    model.register_comm_hook(None, add_up)
    optimizer = patient.optimizer(model, lr=0.005)
    for _, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

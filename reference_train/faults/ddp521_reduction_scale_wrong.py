"""DDP521: a communication hook of one's own adds the gradients up and forgets to divide."""

import torch.distributed as dist
from patient import admit


def add_up(_state: object, bucket):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201 - DDP accepts its own types only
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

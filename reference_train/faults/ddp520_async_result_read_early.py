"""DDP520: the loss of all ranks is reduced in the background, and printed before it is there."""

import torch.distributed as dist
from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        loss = patient.loss(model, images, labels)
        loss.backward()
        optimizer.step()
        if step >= patient.at_step:
            mean = loss.detach() / patient.world_size
            dist.all_reduce(mean, async_op=True)  # sick
            if patient.rank == 0:
                print(f"loss {mean.item():.3f}", flush=True)

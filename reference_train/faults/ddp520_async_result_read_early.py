"""DDP520: the loss of all ranks is printed before it is reduced (`--how step` steps with gradients that are not there yet)."""

import torch
import torch.distributed as dist
from patient import admit

with admit(how="print") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        loss = patient.loss(model, images, labels)
        loss.backward()
        if step >= patient.at_step and patient.options.how == "step":
            gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            before = dist.all_reduce(torch.ones(1 << 24), async_op=True)  # the reduction stands in a queue behind it
            handles = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]  # sick
            optimizer.step()
            for handle in [before, *handles]:
                handle.wait()
            continue
        optimizer.step()
        if step >= patient.at_step:
            mean = loss.detach() / patient.world_size
            dist.all_reduce(mean, async_op=True)  # sick
            if patient.rank == 0:
                print(f"loss {mean.item():.3f}", flush=True)

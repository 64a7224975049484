"""DDP305: one rank calls a collective that the others do not call.

`--how barrier`: a barrier around its checkpoint. `--how log`: it alone logs the mean loss, an all-reduce inside a helper.
`--how validate`: it alone validates through the DDP wrapper, whose forward broadcasts the buffers of BatchNorm.
"""

import torch
import torch.distributed as dist
from patient import admit
from torch import nn


def mean_over_ranks(loss: torch.Tensor) -> float:
    """The mean of the ranks' losses: a collective, easily forgotten by who calls it."""
    total = loss.detach().clone()
    dist.all_reduce(total)  # sick log
    return total.item() / dist.get_world_size()


with admit(how="barrier") as patient:
    model = patient.wrap(nn.Sequential(patient.network(), nn.BatchNorm1d(10)))
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        loss = patient.loss(model, images, labels)
        loss.backward()
        optimizer.step()
        if patient.sick_at(step):
            match patient.options.how:
                case "barrier":
                    dist.barrier()  # sick barrier
                case "log":
                    print(f"step {step}: loss {mean_over_ranks(loss):.3f}", flush=True)
                case _:
                    print(f"validation loss {patient.loss(model, images, labels):.3f}", flush=True)  # sick validate

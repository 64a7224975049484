"""DDP304: each rank asks for the same collective, but not with the same arguments.

`--how root`: one rank takes itself for the one with the best validation loss and broadcasts, nobody receives.
`--how op`: one rank takes the maximum where the others take the sum; nothing fails, the values are nonsense.
"""

import torch.distributed as dist
from patient import admit

with admit(how="root") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        loss = patient.loss(model, images, labels)
        loss.backward()
        optimizer.step()
        ill = patient.sick_at(step)
        if patient.options.how == "root":
            best = (patient.culprit + (0 if ill else 1)) % patient.world_size
            dist.broadcast(loss.detach(), src=best)  # sick root
        else:
            dist.all_reduce(loss.detach(), op=dist.ReduceOp.MAX if ill else dist.ReduceOp.SUM)  # sick op

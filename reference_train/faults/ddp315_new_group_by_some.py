"""DDP315: new_group is a collective over all ranks, members of the group or not, and not all of them call it.

`--how only`: one rank alone makes a group of all ranks. `--how except`: all but one make it.
"""

import torch.distributed as dist
from patient import admit

with admit(how="only") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        if step == patient.at_step and patient.is_culprit == (patient.options.how == "only"):
            validation = dist.new_group()  # sick

"""DDP413: the script asks for a backend that this build of torch does not have."""

import torch.distributed as dist
from patient import admit

with admit() as patient:
    wanted = "mpi" if dist.is_nccl_available() else "nccl"
    group = dist.new_group(backend=wanted)  # sick
    model = patient.wrap(patient.network(), process_group=group)
    optimizer = patient.optimizer(model)
    for _step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

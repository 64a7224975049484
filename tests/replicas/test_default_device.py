"""verify_sync in a job that has set a default device: what is exchanged is made on the CPU all the same."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.replicas.verify import evidence


def test_a_default_device_of_the_job_is_not_used() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with torch.device("meta"):  # as torch.set_default_device has it
            found = evidence(model, optimizer)
    finally:
        dist.destroy_process_group()
    replicas = found.one(Replicas)
    assert not found.undecided
    assert replicas is not None
    assert replicas.tensors == 8  # two parameters, each with a step and two moments

"""A network under DistributedDataParallel: its options, its buckets, its buffers, and what its own clock says."""

from __future__ import annotations

import torch
import torch.distributed as dist
from recipe_options import Options
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from train import BadInput


def wrap(network: nn.Module, options: Options, device: torch.device) -> DistributedDataParallel:
    """The network under DistributedDataParallel, with the options that bear on it."""
    if options.norm == "sync" and device.type != "cuda":
        raise BadInput("--norm sync needs GPUs: SyncBatchNorm computes on CUDA only; use --norm group on CPUs")
    if options.amp == "fp16" and device.type != "cuda":
        raise BadInput("--amp fp16 needs GPUs; --amp bf16 works on CPUs")
    if options.hook == "bf16" and dist.get_backend() != "nccl":
        raise BadInput("--hook bf16 needs NCCL; fp16 and powersgd work with gloo")
    model = DistributedDataParallel(
        network,
        device_ids=[device.index] if device.type == "cuda" else None,
        static_graph=options.static_graph,
        gradient_as_bucket_view=options.bucket_view,
        bucket_cap_mb=options.bucket_mb,
        find_unused_parameters=options.find_unused,
    )
    match options.hook:
        case "fp16":
            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        case "bf16":
            model.register_comm_hook(None, default_hooks.bf16_compress_hook)
        case "powersgd":
            model.register_comm_hook(powerSGD_hook.PowerSGDState(None), powerSGD_hook.powerSGD_hook)
    return model


def settle_buckets(model: DistributedDataParallel, images: Tensor) -> None:
    """One backward whose gradients are thrown away, so that a resumed job adds in the same order as one that never stopped.

    DDP lays its buckets out anew after its first backward, and with more than two ranks another layout means another order
    of additions and other last bits. Random state and buffers are left as they were.
    """
    state, buffers = torch.get_rng_state(), [buffer.clone() for buffer in model.buffers()]
    model(images).sum().backward()
    model.zero_grad()
    torch.set_rng_state(state)
    for buffer, before in zip(model.buffers(), buffers, strict=True):
        buffer.copy_(before)


def send_buffers(network: nn.Module) -> None:
    """Give every rank the buffers of rank 0: running statistics differ after a forward, and with them the test's result."""
    for buffer in network.buffers():
        dist.broadcast(buffer, src=0)


def hidden_communication(model: DistributedDataParallel) -> float | None:
    """The share of the communication in a backward that ran beside computation, by DDP's own clock; None if it has none."""
    known = model._get_ddp_logging_data()  # noqa: SLF001 - torch has no public way to it
    spent = known.get("avg_backward_comm_time", 0)
    return known.get("avg_backward_compute_comm_overlap_time", 0) / spent if spent else None

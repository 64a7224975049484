"""What of a model and an optimizer must be equal on all replicas: parameters, buffers, optimizer state; by user name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .dtensor import is_meshed

Role = Literal["parameter", "buffer", "optimizer state"]
DIFFERENT_BY_DESIGN = {"prev_loss"}  # keys of an optimizer's state: LBFGS keeps the loss of its rank's own batch


class SharedTensor(NamedTuple):
    """One tensor that replicas share."""

    role: Role
    """Whether it is a parameter, a buffer, or state of the optimizer."""
    name: str
    """As the user has it, without prefixes of wrappers: `layer.weight`, of optimizer state `layer.weight.exp_avg`."""
    tensor: Tensor
    """The tensor itself, not a copy."""
    structure: dict[str, Any]
    """All but its bytes: dtype, shape, strides, and whether autograd computes a gradient for it."""
    tied_to: str = ""
    """The name of the tensor that it shares its bytes with; empty where it has bytes of its own."""


def inventory(model: nn.Module, optimizer: Optimizer | None = None) -> list[SharedTensor]:
    """Every parameter, buffer and state tensor, in the model's own order; tied ones point to the first of them.

    Names are the user's: what a wrapper (DistributedDataParallel, torch.compile) puts before them is left out. Of a tensor
    on a device mesh (DTensor) the structure tells the whole's shape, and how it lies on the mesh.
    """
    items: list[SharedTensor] = []
    seen: dict[int, str] = {}
    listed: tuple[tuple[Role, Iterator[tuple[str, Tensor]]], ...] = (
        ("parameter", unwrapped(model).named_parameters(remove_duplicate=False)),
        ("buffer", unwrapped(model).named_buffers(remove_duplicate=False)),
        ("optimizer state", optimizer_state(model, optimizer)),
    )
    for role, pairs in listed:
        for name, tensor in pairs:
            tied_to = seen.setdefault(id(tensor), name)
            items.append(_item(role, name, tensor, "" if tied_to == name else tied_to))
    return items


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's module inside DistributedDataParallel, DataParallel and torch.compile."""
    while True:
        if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def optimizer_state(model: nn.Module | None, optimizer: Optimizer | None) -> Iterator[tuple[str, Tensor]]:
    """The optimizer's state as `weight.exp_avg`: tensors as they are, numbers as tensors; in order of its parameters."""
    if optimizer is None:
        return
    for name, parameter, key in named_state(model, optimizer):
        if (tensor := as_tensor(optimizer.state[parameter][key])) is not None:
            yield name, tensor


def named_state(model: nn.Module | None, optimizer: Optimizer) -> Iterator[tuple[str, Tensor, Any]]:
    """Everything that the optimizer keeps for all ranks alike, in order of its parameters.

    Each has a name like `weight.exp_avg`, what it is kept for, and its key.
    """
    names = (
        {id(parameter): name for name, parameter in unwrapped(model).named_parameters()} if model is not None else {}
    )
    for place, group in enumerate(optimizer.param_groups):
        for number, parameter in enumerate(group["params"]):
            name = names.get(id(parameter), f"param_groups[{place}]['params'][{number}]")
            state = optimizer.state.get(parameter, {})
            for key in sorted(state.keys() - DIFFERENT_BY_DESIGN, key=str):
                yield f"{name}.{key}", parameter, key


def structure_digest(items: list[SharedTensor]) -> bytes:
    """16 bytes over names, order, dtypes, shapes, strides, requires_grad and ties of all items."""
    text = json.dumps([(item.role, item.name, item.structure, item.tied_to) for item in items])
    return blake2b(text.encode(), digest_size=16).digest()


def _item(role: Role, name: str, tensor: Tensor, tied_to: str) -> SharedTensor:
    structure = {
        "dtype": str(tensor.dtype).removeprefix("torch.") + _lies(tensor),
        "shape": list(tensor.shape),
        "stride": _stride(tensor),
        "requires_grad": tensor.requires_grad,
    }
    return SharedTensor(role, name, tensor, structure, tied_to)


def _lies(tensor: Any) -> str:  # noqa: ANN401
    """How a DTensor lies on its mesh."""
    return f" as {list(tensor.placements)} on a mesh of {list(tensor.device_mesh.shape)}" if is_meshed(tensor) else ""


def _stride(tensor: Tensor) -> list[int] | str:
    """The strides, 0 where a dimension of one element makes them meaningless; the layout's name where there are none."""
    if tensor.layout is not torch.strided:
        return str(tensor.layout).removeprefix("torch.")
    if tensor.numel() == 0:
        return [0] * tensor.dim()
    return [0 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]


def as_tensor(value: Any) -> Tensor | None:  # noqa: ANN401 - optimizers keep what they like
    """A tensor as it is, a number as a tensor, and None for anything else."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int)):
        return torch.tensor(int(value), dtype=torch.int64, device="cpu") if abs(int(value)) < 1 << 63 else None
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64, device="cpu")
    return None

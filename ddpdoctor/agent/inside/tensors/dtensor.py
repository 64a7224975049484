"""Tensors that lie on a device mesh (DTensor: FSDP2, HSDP, tensor parallel): the part on this rank, and who holds a copy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_PLAIN = {torch.Tensor, torch.nn.Parameter}


def is_meshed(tensor: Tensor) -> bool:
    """Whether the tensor is a DTensor: only a part of it is on this rank, or its replicas lie along a mesh."""
    if type(tensor) in _PLAIN:
        return False
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def local_part(tensor: Any) -> Tensor:  # noqa: ANN401 - a DTensor, which torch defines where distributed is built in
    """The part on this rank; no collective."""
    with torch.no_grad():
        part: Tensor = tensor.detach().to_local()
        return part


def holders(tensor: Any) -> tuple[int, ...]:  # noqa: ANN401
    """The ranks of the job that hold the same part: along every dimension of the mesh on which it is replicated."""
    mesh = tensor.device_mesh
    here = mesh.get_coordinate()
    if here is None:  # this rank is not on the mesh
        return ()
    place = tuple(
        slice(None) if placement.is_replicate() else coordinate
        for placement, coordinate in zip(tensor.placements, here, strict=True)
    )
    return tuple(sorted(mesh.mesh[place].flatten().tolist()))


def offset(tensor: Any) -> tuple[int, ...]:  # noqa: ANN401
    """Where this rank's part begins in the whole."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, begins = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(begins)

"""`ddpdoctor.verify_sync`: a call inside anyone's ranks."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.messages.replicas import tolerance_sentence
from ddpdoctor.model import Report
from ddpdoctor.replicas.allgather import PeerFailedError
from ddpdoctor.replicas.compare import compare

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

CODES = ("DDP501", "DDP502", "DDP503", "DDP507", "DDP508")


def verify_sync(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    tolerance: float = 0.0,
) -> Report:
    """Whether all ranks of `group` hold the same model and optimizer state, bit by bit; the same report on every rank.

    Every rank must call it, at the same place of its program. Structure is compared before values (names, order, dtype,
    shape, stride, requires_grad); where bytes differ, the report names the tensor, the element, its values and the ranks
    in the minority. Of a tensor on a device mesh (FSDP2, HSDP, tensor parallel) the ranks that hold the same part are
    compared; the report's notes say how many tensors are fully sharded, and so have no replica. When all agree it costs one
    pass over the bytes and one exchange of 56 bytes a rank, and with a mesh one more of 24 bytes a tensor. A rank that
    cannot read its tensors makes the report undecided on every rank; it never leaves the others waiting.

    With a `tolerance`, tensors in which no element differs by more are no findings but counted in the report's notes.

    Raises:
        UsageError: no process group has been initialised, or the tolerance is negative or no number.
    """
    return diagnose(evidence(model, optimizer, group, tolerance=tolerance), select=CODES)


def evidence(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    tolerance: float = 0.0,
) -> Evidence:
    """What `verify_sync` judges.

    Raises:
        UsageError: no process group has been initialised, or the tolerance is negative or no number.
    """
    if not tolerance >= 0:
        raise UsageError(
            f"verify_sync(tolerance={tolerance})", hint="give the largest difference to accept, such as 1e-6"
        )
    if not (dist.is_available() and dist.is_initialized()):
        raise UsageError(
            "verify_sync was called before torch.distributed.init_process_group",
            hint="call it on every rank, after init_process_group",
        )
    here = RankFacts(rank=dist.get_rank(), host=socket.gethostname(), facts=())
    try:
        with torch.device("cpu"):  # the job may have set another default device
            replicas, _ = compare(model, optimizer, group, tolerance)
    except PeerFailedError as error:
        return Evidence(ranks=(here,), undecided=(f"the replicas could not be compared: {error}",))
    counted = (tolerance_sentence(tolerance, replicas.within, replicas.largest),) if tolerance else ()
    return Evidence(ranks=(here,), job=(replicas,), notes=(*counted, *_skipped(replicas)))


def _skipped(replicas: Replicas) -> tuple[str, ...]:
    if not replicas.sharded:
        return ()
    total = replicas.tensors + replicas.sharded
    return (
        f"{replicas.sharded} of {total} tensors are fully sharded: no two ranks hold the same part, so they were skipped",
    )

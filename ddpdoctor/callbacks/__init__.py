"""verify-sync every K steps, for those whose training loop belongs to Lightning, Accelerate or the Hugging Face Trainer.

Each module here needs the package that it is for, and torch; nothing else of ddpdoctor imports them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ddpdoctor.errors import DdpdoctorError

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

log = logging.getLogger("ddpdoctor")


class ReplicasDifferError(DdpdoctorError):
    """The replicas diverged; the message is the report. Every rank raises it, so that none waits for another."""

    exit_code = 1


def check_replicas(model: nn.Module, optimizers: Iterable[Optimizer], step: int, *, stop: bool) -> None:
    """Compare the replicas on all ranks; a finding that fails is logged, or raised where `stop` is set.

    A comparison that could not be made is logged and ends nothing.

    Raises:
        ReplicasDifferError: the ranks hold different weights or optimizer state, and `stop` is set.
    """
    from ddpdoctor import verify_sync
    from ddpdoctor.model import Severity
    from ddpdoctor.render import text

    chosen: list[Optimizer | None] = [*optimizers]
    for optimizer in chosen or [None]:
        report = verify_sync(model, optimizer)
        code = report.exit_code(Severity.FAIL)
        if code != 0:
            message = f"after step {step}: {text.render(report).strip()}"
            if code == ReplicasDifferError.exit_code and stop:
                raise ReplicasDifferError(message)
            log.error(message)

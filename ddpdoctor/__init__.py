"""Diagnose PyTorch DistributedDataParallel jobs: the rank, the line, the cause and the cure.

`verify_sync` compares the replicas from inside a job's ranks; it and torch are imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddpdoctor.agent.verify import verify_sync as verify_sync

__version__ = "0.1.0"
__all__ = ["__version__", "verify_sync"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what stands in the module that has it
    """`verify_sync`, which needs torch: imported when it is asked for."""
    if name == "verify_sync":
        from ddpdoctor.agent.verify import verify_sync

        return verify_sync
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

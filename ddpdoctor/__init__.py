"""Diagnose PyTorch DistributedDataParallel jobs: the rank, the line, the cause and the fix.

`verify_sync` compares the replicas from inside a job's ranks, `track` follows a block of their training; they and torch are
imported when they are first used. `notebook_launch` runs a function of a notebook on several ranks.
"""

from __future__ import annotations

TYPE_CHECKING = False  # nothing is imported here: until `__main__` runs, an interrupt at a terminal ends in a traceback
if TYPE_CHECKING:
    from typing import Any

    from ddpdoctor.launch.notebook import notebook_launch as notebook_launch
    from ddpdoctor.replicas.verify import verify_sync as verify_sync
    from ddpdoctor.tracking import track as track

__version__ = "0.1.0"
__all__ = ["__version__", "notebook_launch", "track", "verify_sync"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what stands in the module that has it
    """`verify_sync`, `track` and `notebook_launch`: imported when they are asked for."""
    if name == "verify_sync":
        from ddpdoctor.replicas.verify import verify_sync

        return verify_sync
    if name == "track":
        from ddpdoctor.tracking import track

        return track
    if name == "notebook_launch":
        from ddpdoctor.launch.notebook import notebook_launch

        return notebook_launch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

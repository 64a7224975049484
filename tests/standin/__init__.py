"""A stand-in for ranks on GPUs: programs written for gloo behave on a CPU as they would with NCCL.

A job gets it through its environment and needs no change. What differs from gloo:

- A collective returns at once. A thread per process group executes the collectives of that group in order.
- `wait()` of an explicit collective does not block: later work waits for it, as on a CUDA stream.
- `.item()`, `.cpu()`, `bool()`, `torch.cuda.synchronize()`, a barrier, and DDP's own waits spin at 100 % CPU.
- Ranks that disagree on a collective get no error: the collective never completes.
- The flight recorder has the entries of NCCL, with the times at which they were started and completed.
- A watchdog ends a rank whose collective exceeds its timeout, with NCCL's messages and a dump.
"""

from __future__ import annotations

import os
from pathlib import Path

ON_PATH = Path(__file__).with_name("on_path")


def environment() -> dict[str, str]:
    """The variables that make each rank of a job use the stand-in."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(ON_PATH), os.environ.get("PYTHONPATH")))), **RECORDER_OFF}


# gloo executes the collectives below the stand-in; the worker server must not show a second recorder
RECORDER_OFF = {"TORCH_FR_BUFFER_SIZE": "0"}

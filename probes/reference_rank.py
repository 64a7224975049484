"""Runs a program of reference_train/ as a rank that meets the others as every probe does: rank 0 knows meanwhile who has come.

The program itself stays one that anybody can copy: it calls `init_process_group`, and knows nothing of ddpdoctor.
"""

from __future__ import annotations

import runpy
import sys
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from rank import join_group
from torch.distributed.distributed_c10d import default_pg_timeout


def main(program: str, *arguments: str) -> None:
    """Run `program` with `arguments`, as Python itself would."""
    original = dist.init_process_group

    def init_process_group(backend: str, timeout: timedelta | None = None) -> None:
        dist.init_process_group = original
        join_group(backend, timeout or default_pg_timeout)

    dist.init_process_group = init_process_group  # type: ignore[assignment] # of its options the programs use these
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).parent)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""NVIDIA's Multi-Process Service for as long as a command needs it: kernels of several processes then run side by side."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 20.0


@contextmanager
def mps(*, wanted: bool) -> Iterator[Mapping[str, str]]:
    """The variables that let a process use a server of its own; nothing where it is not `wanted`.

    Raises:
        OSError: the control program is not there or does not start.
    """
    if not wanted:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        logs = Path(folder) / "log"
        logs.mkdir()
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": str(logs)}
        environment = {**os.environ, **variables}
        try:
            subprocess.run([CONTROL, "-d"], env=environment, timeout=SECONDS, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise OSError(f"{CONTROL} -d: {error}") from None
        try:
            yield variables
        finally:
            subprocess.run([CONTROL], input="quit -t 1\n", text=True, env=environment, timeout=SECONDS, check=False)

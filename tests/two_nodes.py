"""A torchrun of two agents on this machine that share no files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.free_port import free_port


def two_nodes(folder: Path, *arguments: str, nproc: int = 2, **env: str) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of the two agents that ran ddpdoctor, each with temporary files of its own."""
    port = free_port()
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", str(nproc),
        "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "two", "--local-addr", "127.0.0.1",
        "-m", "ddpdoctor", *arguments,
    ]  # fmt: skip
    agents = []
    for node in ("a", "b"):
        own = folder / node
        own.mkdir()
        environ = {**os.environ, "TMPDIR": str(own), "OMP_NUM_THREADS": "1", **env}
        environ.pop("XDG_RUNTIME_DIR", None)
        agents.append(
            subprocess.Popen(torchrun, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    said = [agent.communicate(timeout=300) for agent in agents]
    return [(agent.returncode, out, err) for agent, (out, err) in zip(agents, said, strict=True)]

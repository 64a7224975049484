"""How several NCCL ranks can share one card: tries what may allow it, and writes the first that works to `sharing.json`.

NCCL refuses two ranks on one device unless NCCL_MULTI_RANK_GPU_ENABLE allows it. Before NCCL knew that variable, ranks that
called themselves different hosts were not compared; they then talk over sockets. Kernels of two processes take turns on a
card, and run side by side where the Multi-Process Service joins them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.gpu.mps import mps

ON_PATH = str(Path(__file__).with_name("on_path"))
SECONDS = 35.0
SHARED = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
OWN_HOSTS = {**SHARED, "DDPDOCTOR_TEST_OWN_HOSTS": "1", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
WAYS = {  # the variables, and whether the Multi-Process Service is used
    "shared": (SHARED, False),
    "shared, with MPS": (SHARED, True),
    "own hosts": (OWN_HOSTS, False),
    "own hosts, with MPS": (OWN_HOSTS, True),
}
JOB = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("nccl")
for _ in range(20):
    value = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(value)
    assert value[0].item() == dist.get_world_size()
dist.destroy_process_group()
"""


def main() -> None:
    """Write `{"ranks": ..., "environment": {...}, "mps": ..., "tried": {...}}`."""
    folder = Path(sys.argv[1])
    script = folder / "ranks.py"
    script.write_text(JOB)
    tried: dict[str, str] = {}
    found: dict[str, object] = {"ranks": 1, "environment": {}, "mps": False}
    for way, (variables, served) in WAYS.items():
        environment = {**variables, "PYTHONPATH": os.pathsep.join([ON_PATH, os.environ.get("PYTHONPATH", "")])}
        ranks = _most(script, environment, tried, way, served=served)
        if ranks > 1:
            found = {"ranks": ranks, "environment": environment, "mps": served}
            break
    (folder / "sharing.json").write_text(json.dumps({**found, "tried": tried}, indent=1))
    print(f"{found['ranks']} NCCL ranks: {'; '.join(f'{way}: {how[:60]}' for way, how in tried.items())}")


def _most(script: Path, environment: dict[str, str], tried: dict[str, str], way: str, *, served: bool) -> int:
    """How many ranks this way allows, 4 at most."""
    most = 1
    try:
        with mps(wanted=served) as variables:
            for ranks in (2, 4):
                if not _works(script, ranks, {**environment, **variables}, tried, f"{way}, {ranks} ranks"):
                    break
                most = ranks
    except (OSError, subprocess.SubprocessError) as error:
        tried.setdefault(way, str(error))
    return most


def _works(script: Path, ranks: int, environment: dict[str, str], tried: dict[str, str], way: str) -> bool:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(ranks),
        str(script),
    ]
    with subprocess.Popen(
        ["timeout", "--kill-after=5", str(SECONDS), *command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        said, _ = process.communicate()
    tried[way] = "works" if process.returncode == 0 else f"exit code {process.returncode}: {said[-2000:]}"
    return process.returncode == 0


if __name__ == "__main__":
    main()

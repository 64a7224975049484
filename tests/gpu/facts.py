"""What NVML, nvidia-smi and torch tell of the cards of this machine: `facts.json` and `nvidia-smi.txt` in the folder given."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from tests.gpu.machine import ROOT

COMMANDS = {
    "nvidia-smi.txt": ["nvidia-smi", "-q"],
    "topology.txt": ["nvidia-smi", "topo", "-m"],
    "kernel-log.txt": ["sh", "-c", "dmesg | grep -i -e nvrm -e xid | tail -50"],
}


def main() -> None:
    """Write them."""
    folder = Path(sys.argv[1])
    for name, command in COMMANDS.items():
        (folder / name).write_text(_said(command))
    nvml = subprocess.run(
        [sys.executable, str(ROOT / "probes" / "gpus.py")], capture_output=True, text=True, timeout=60, check=True
    )
    properties = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    facts = {
        "nvml": json.loads(nvml.stdout),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": torch.cuda.nccl.version(),
        "devices": [str(one) for one in properties],
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))
    print(json.dumps(facts))


def _said(command: Sequence[str]) -> str:
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{error}\n"
    return told.stdout + told.stderr


if __name__ == "__main__":
    main()

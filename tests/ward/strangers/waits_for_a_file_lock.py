"""Every rank writes its part of the last checkpoint, and one finds its file locked by a helper process."""
# DDP307 culprit: fcntl.flock(file, fcntl.LOCK_EX)

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HOLD = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"


def save(model: nn.Module, path: Path) -> None:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        torch.save(model.state_dict(), file)


def main(folder: str) -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.GRU(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(25):
        optimizer.zero_grad()
        model(torch.randn(5, 2, 4))[0].sum().backward()
        optimizer.step()
    path = Path(folder) / "part.pt"
    if dist.get_rank() == int(os.environ["CULPRIT"]):
        helper = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
        helper.stdout.readline()
    save(model.module, path)
    dist.barrier()
    dist.destroy_process_group()


with tempfile.TemporaryDirectory() as folder:
    main(folder)

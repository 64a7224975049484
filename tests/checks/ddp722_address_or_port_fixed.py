"""Training programs with DDP722 address-or-port-fixed, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import source, training

RPC = """import os
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def run(rank):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29500"
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
"""
SICK = (
    Sick(
        evidence=source(train=RPC),
        says="MASTER_PORT is always 29500, whatever the launcher gave: a second job on the node uses the same port",
        where=("train.py:8 run",),
        measured={"variable": "MASTER_PORT"},
    ),
    Sick(
        evidence=training(("    rank = int", ('    os.environ["MASTER_PORT"] = "29500"\n    rank = int'))),
        says=("MASTER_PORT is always 29500, whatever the launcher gave: a second job on the node uses the same port"),
        where=("train.py:24 main",),
        measured={"variable": "MASTER_PORT"},
    ),
    Sick(
        evidence=training(
            (
                'init_process_group("nccl")',
                'init_process_group("nccl", init_method="tcp://10.0.0.1:23456", rank=rank, world_size=8)',
            )
        ),
        says="init_method is always tcp://10.0.0.1:23456: a second job on the node uses the same port",
        where=("train.py:27 main",),
        measured={"port": 23456},
    ),
)
HEALTHY = (
    source(  # a program that converts checkpoints, in one process
        train="import os\nimport torch.distributed as dist\n\n\ndef convert(path):\n"
        '    os.environ["MASTER_ADDR"] = "localhost"\n    os.environ["MASTER_PORT"] = "12355"\n'
        '    world_size = 1\n    dist.init_process_group("gloo", rank=0, world_size=world_size)\n'
    ),
    source(train=RPC.replace('os.environ["MASTER_PORT"] = "29500"', 'os.environ.setdefault("MASTER_PORT", "29500")')),
    training(("    rank = int", ('    os.environ.setdefault("MASTER_PORT", "29500")\n    rank = int'))),
    training(
        (
            "    rank = int",
            ('    if "MASTER_PORT" not in os.environ:\n        os.environ["MASTER_PORT"] = "29500"\n    rank = int'),
        )
    ),
)

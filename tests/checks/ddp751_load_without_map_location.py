"""Training programs with DDP751 load-without-map-location, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import source, training

IGNITE = """import ignite.distributed as idist
import torch
from ignite.handlers import Checkpoint, DiskSaver


def weights(config):
    path = idist.broadcast(config.path, src=0)
    return torch.load(path)


def evaluation(local_rank, config):
    model = config.model.to(idist.device())
    model.load_state_dict(weights(config))
    Checkpoint({"model": model}, DiskSaver("out"))


def main(config):
    with idist.Parallel(backend="nccl") as parallel:
        parallel.run(evaluation, config)


main(read())
"""
RESTORE = """import torch


def restore(model, checkpoint):
    if isinstance(checkpoint, str):
        checkpoint = torch.load(checkpoint)
    model.load_state_dict(checkpoint["model"])
"""
RESTORED = (
    ("import os\n", "import os\nfrom resume import restore\n"),
    ("    best = 0.0\n", '    restore(ddp.module, "last.pt")\n    best = 0.0\n'),
)
SICK = (
    Sick(
        evidence=training(*RESTORED, resume=RESTORE),
        says="torch.load(checkpoint) has no map_location: the tensors of all ranks land on the GPU that saved them, GPU 0",
        where=("resume.py:6 restore",),
    ),
    Sick(
        evidence=source(train=IGNITE),
        says="torch.load(path) has no map_location: the tensors of all ranks land on the GPU that saved them, GPU 0",
        where=("train.py:8 weights",),
    ),
    Sick(
        evidence=training(
            ("    best = 0.0\n", ('    ddp.module.load_state_dict(torch.load("last.pt"))\n    best = 0.0\n'))
        ),
        says=(
            'torch.load("last.pt") has no map_location: the tensors of all ranks land on the GPU that saved them, GPU 0'
        ),
        where=("train.py:42 main",),
    ),
)
HEALTHY = (
    training(
        RESTORED[0],
        (
            "    best = 0.0\n",
            '    restore(ddp.module, torch.load("last.pt", map_location="cpu"))\n    best = 0.0\n',
        ),
        resume=RESTORE,
    ),
    source(
        train=IGNITE.replace('"nccl"', '"gloo"').replace("torch.load(path)", 'torch.load(path, map_location="cpu")')
    ),
    training(
        (
            "    best = 0.0\n",
            ('    ddp.module.load_state_dict(torch.load("last.pt", map_location="cpu"))\n    best = 0.0\n'),
        )
    ),
    training(
        (
            "    model = nn.Sync",
            ('    if rank == 0:\n        model.load_state_dict(torch.load("last.pt"))\n    model = nn.Sync'),
        )
    ),
)

"""Training programs with DDP751 load-without-map-location, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
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

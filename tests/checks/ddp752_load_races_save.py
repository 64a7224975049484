"""Training programs with DDP752 load-races-save, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                ("        dist.barrier()\n    dist.destroy"),
                ('        ddp.module.load_state_dict(torch.load("last.pt", map_location="cpu"))\n    dist.destroy'),
            )
        ),
        says=(
            "all ranks load 'last.pt', which one rank saves inside `if rank == 0` (line 54) in line 56: "
            "nothing makes them wait until it is written"
        ),
        where=("train.py:57 main", "train.py:56 main"),
    ),
)
HEALTHY = (
    training(
        (
            ("        dist.barrier()\n    dist.destroy"),
            (
                "        dist.barrier()\n"
                '        ddp.module.load_state_dict(torch.load("last.pt", map_location="cpu"))\n'
                "    dist.destroy"
            ),
        )
    ),
)

"""Training programs with DDP755 prints-on-every-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("            optimizer.step()\n", "            optimizer.step()\n            print(epoch)\n")
        ),
        says="every rank shows a line of its own in the training loop: print(epoch)",
        where=("train.py:51 main",),
    ),
    Sick(
        evidence=training(
            (
                "for images, labels in loader:\n            optimizer",
                "for images, labels in tqdm(loader):\n            optimizer",
            )
        ),
        says="every rank shows a progress bar of its own in the training loop: tqdm(loader)",
        where=("train.py:46 main",),
    ),
)
HEALTHY = (
    training(("            optimizer.step()\n", "            optimizer.step()\n            print(rank, epoch)\n")),
    training(
        (
            "for images, labels in loader:\n            optimizer",
            "for images, labels in tqdm(loader, disable=rank > 0):\n            optimizer",
        )
    ),
)

"""Training programs with DDP741 never-synchronised, and healthy ones."""

from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                (
                    "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
                    "            loss.backward()\n"
                ),
                (
                    "            with ddp.no_sync():\n"
                    "                loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
                    "                loss.backward()\n"
                ),
            )
        ),
        says="every forward runs under `ddp.no_sync()`: the step in line 51 uses gradients of this rank alone",
        where=("train.py:48 main", "train.py:49 main", "train.py:51 main"),
    ),
    Sick(
        evidence=training(
            ("            loss.backward()\n", ("            with ddp.no_sync():\n                loss.backward()\n"))
        ),
        says=(
            "only the backward runs under `ddp.no_sync()`: what counts is the forward, so that gradients "
            "are reduced all the same"
        ),
        where=("train.py:50 main",),
        severity=Severity.INFO,
    ),
)
HEALTHY = (
    training(
        (
            (
                "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
                "            loss.backward()\n"
            ),
            (
                "            with ddp.no_sync():\n"
                "                nn.functional.cross_entropy(ddp(images.to(device)), "
                "labels.to(device)).backward()\n"
                "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
                "            loss.backward()\n"
            ),
        )
    ),
    training(
        (
            (
                "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
                "            loss.backward()\n"
            ),
            (
                "            with ddp.no_sync() if labels.numel() % 2 else nullcontext():\n"
                "                loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
                "                loss.backward()\n"
            ),
        ),
        ("import os\n", ("import os\nfrom contextlib import nullcontext\n")),
    ),
)

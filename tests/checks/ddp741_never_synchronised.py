"""Training programs with DDP741 never-synchronised, and healthy ones."""

from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.training_programs import training

_STEP = """\
def update(optimizer, parameters):
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()


def last(ddp, optimizer, images, labels):
    nn.functional.cross_entropy(ddp(images), labels).backward()
    optimizer.step()


def main():
"""
_STEPS_IN_A_FUNCTION = (
    ("def main():\n", _STEP),
    ("            optimizer.step()\n        accuracy", "            UPDATE\n        accuracy"),
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
    ),
)
SICK = (
    Sick(
        evidence=training(*_STEPS_IN_A_FUNCTION, ("UPDATE", "update(optimizer, ddp.parameters())")),
        says="every forward runs under `ddp.no_sync()`: the step in line 25 uses gradients of this rank alone",
        where=("train.py:58 main", "train.py:59 main", "train.py:25 update"),
    ),
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
    training(*_STEPS_IN_A_FUNCTION, ("UPDATE", "last(ddp, optimizer, images, labels)")),
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

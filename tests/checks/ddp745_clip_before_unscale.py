"""Training programs with DDP745 clip-before-unscale, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_IN_A_STEP_OF_ITS_OWN = (
    (
        "    best = 0.0\n",
        (
            "    scaler = torch.amp.GradScaler()\n"
            "    best = 0.0\n\n"
            "    def step(images, labels):\n"
            "            optimizer.zero_grad()\n"
            "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
            "            scaler.scale(loss).backward()\n"
            "            UNSCALE\n"
            "            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n"
            "            scaler.step(optimizer)\n"
            "            scaler.update()\n\n"
        ),
    ),
    (
        (
            "            optimizer.zero_grad()\n"
            "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
            "            loss.backward()\n"
            "            optimizer.step()\n"
        ),
        "            step(images, labels)\n",
    ),
)
_IN_A_HELPER = (
    (
        "def main():\n",
        (
            "def update(scaler, optimizer, parameters, limit):\n"
            "    torch.nn.utils.clip_grad_value_(parameters, limit)\n"
            "    UNSCALE"
            "    scaler.step(optimizer)\n"
            "    scaler.update()\n\n\n"
            "def main():\n"
        ),
    ),
    ("    best = 0.0\n", "    scaler = torch.amp.GradScaler()\n    best = 0.0\n"),
    (
        "            loss.backward()\n            optimizer.step()\n",
        ("            scaler.scale(loss).backward()\n            update(scaler, optimizer, ddp.parameters(), 1.0)\n"),
    ),
)
SICK = (
    Sick(
        evidence=training(
            (
                ("            loss.backward()\n            optimizer.step()\n"),
                (
                    "            scaler.scale(loss).backward()\n"
                    "            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n"
                    "            scaler.step(optimizer)\n"
                    "            scaler.update()\n"
                ),
            ),
            ("    best = 0.0\n", ("    scaler = torch.amp.GradScaler()\n    best = 0.0\n")),
        ),
        says=(
            "clip_grad_norm_ clips gradients that `scaler.scale` has multiplied, and nothing unscales them "
            "before: the threshold is wrong by the loss scale"
        ),
        where=("train.py:51 main", "train.py:50 main"),
    ),
    Sick(
        evidence=training(*_IN_A_STEP_OF_ITS_OWN, ("            UNSCALE\n", "")),
        says=(
            "clip_grad_norm_ clips gradients that `scaler.scale` has multiplied, and nothing unscales them "
            "before: the threshold is wrong by the loss scale"
        ),
        where=("train.py:49 step", "train.py:48 step"),
    ),
    Sick(
        evidence=training(*_IN_A_HELPER, ("    UNSCALE", "    scaler.unscale_(optimizer)\n")),
        says=(
            "clip_grad_value_ clips gradients that `scaler.scale` has multiplied, and nothing unscales them "
            "before: the threshold is wrong by the loss scale"
        ),
        where=("train.py:24 update", "train.py:57 main"),
    ),
)
_OFF = (
    "    best = 0.0\n",
    "    scaler = torch.amp.GradScaler(enabled=False)\n    best = 0.0\n",
)
"""A scaler that scales nothing."""
HEALTHY = (
    training(
        (
            "            loss.backward()\n            optimizer.step()\n",
            (
                "            scaler.scale(loss).backward()\n"
                "            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n"
                "            scaler.step(optimizer)\n"
                "            scaler.update()\n"
            ),
        ),
        _OFF,
    ),
    training(*_IN_A_STEP_OF_ITS_OWN, ("            UNSCALE\n", "            scaler.unscale_(optimizer)\n")),
    training(
        (
            ("            loss.backward()\n            optimizer.step()\n"),
            (
                "            scaler.scale(loss).backward()\n"
                "            scaler.unscale_(optimizer)\n"
                "            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n"
                "            scaler.step(optimizer)\n"
                "            scaler.update()\n"
            ),
        ),
        ("    best = 0.0\n", ("    scaler = torch.amp.GradScaler()\n    best = 0.0\n")),
    ),
    training(  # unscaled for the clip of the other branch
        *_IN_A_HELPER,
        (
            "    UNSCALE",
            "    if limit > 9:\n        scaler.unscale_(optimizer)\n        torch.nn.utils.clip_grad_norm_(parameters, 9)\n",
        ),
        ("    torch.nn.utils.clip_grad_value_", "    if limit <= 9:\n        torch.nn.utils.clip_grad_value_"),
    ),
)

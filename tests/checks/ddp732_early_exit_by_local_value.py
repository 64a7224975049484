"""Training programs with DDP732 early-exit-by-local-value, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_AVERAGE = (
    "def main():\n",
    (
        "def average(model):\n"
        "    for p in filter(lambda p: p.requires_grad, model.parameters()):\n"
        "        if p.grad is not None:\n"
        "            dist.all_reduce(p.grad.data)\n"
        "            p.grad.data /= dist.get_world_size()\n\n\n"
        "def main():\n"
    ),
)
"""A function that averages the gradients of a model without a wrapper."""

_BY_HAND = (
    ("    ddp = DDP(model, device_ids=[local_rank])\n", "    ddp = model\n"),
    ("            optimizer.step()\n", "            average(ddp)\n            optimizer.step()\n"),
    _AVERAGE,
)
"""The same program without a wrapper: it averages the gradients by itself."""

SICK = (
    Sick(
        evidence=training(
            (
                "            loss.backward()\n",
                ("            if torch.isnan(loss):\n                continue\n            loss.backward()\n"),
            )
        ),
        says=(
            "a rank skips the rest of the step inside `if torch.isnan(loss)` (line 49), which each rank "
            "decides by its own loss: the others wait for it in the backward of the wrapped model in line 51"
        ),
        where=("train.py:50 main", "train.py:51 main"),
        measured={"collective": "backward"},
    ),
    Sick(
        evidence=training(
            (
                "            optimizer.step()\n",
                ("            optimizer.step()\n            if time.time() - started > 3600:\n                break\n"),
            ),
            ("import os\n", ("import os\nimport time\n")),
            ("    best = 0.0\n", ("    best = 0.0\n    started = time.time()\n")),
        ),
        says=(
            "a rank leaves the loop inside `if time.time() - started > 3600` (line 53), which each rank "
            "decides by its own clock: the others wait for it in the backward of the wrapped model in line "
            "51"
        ),
        where=("train.py:54 main", "train.py:51 main"),
        measured={"collective": "backward"},
    ),
    Sick(
        evidence=training(
            ("            loss = nn.functional", ("            try:\n                loss = nn.functional")),
            (
                ("            loss.backward()\n            optimizer.step()\n"),
                (
                    "                loss.backward()\n"
                    "                optimizer.step()\n"
                    "            except RuntimeError as error:\n"
                    "                print('skipped', error)\n"
                ),
            ),
        ),
        says=(
            "`except RuntimeError`: a rank whose step fails goes on to the next batch, and the others wait "
            "for it in the backward of line 50"
        ),
        where=("train.py:52 main", "train.py:50 main"),
        measured={"collective": "backward"},
    ),
    Sick(
        evidence=training(
            *_BY_HAND,
            (
                "            loss.backward()\n",
                "            if not torch.isfinite(loss):\n                continue\n            loss.backward()\n",
            ),
        ),
        says=(
            "a rank skips the rest of the step inside `if not torch.isfinite(loss)` (line 56), which each rank decides "
            "by its own loss: the others wait for it in all_reduce in line 59"
        ),
        where=("train.py:57 main", "train.py:59 main"),
        measured={"collective": "all_reduce"},
    ),
)
HEALTHY = (
    training(
        *_BY_HAND,
        (
            "            loss.backward()\n",
            (
                "            bad = (~torch.isfinite(loss)).float()\n"
                "            dist.all_reduce(bad, op=dist.ReduceOp.MAX)\n"
                "            if bad.item():\n"
                "                continue\n"
                "            loss.backward()\n"
            ),
        ),
    ),
    training(
        (
            "            loss.backward()\n",
            (
                "            flag = torch.isnan(loss).float()\n"
                "            dist.all_reduce(flag)\n"
                "            if flag.item() > 0:\n"
                "                continue\n"
                "            loss.backward()\n"
            ),
        )
    ),
    training(
        (
            "            loss.backward()\n",
            (
                "            if torch.isnan(loss):\n"
                "                raise RuntimeError('nan')\n"
                "            loss.backward()\n"
            ),
        )
    ),
    training(
        ("def main():\n", "def share(state):\n    dist.all_reduce(state.score)\n\n\ndef main():\n"),
        (
            "            optimizer.step()\n",
            (
                "            optimizer.step()\n            state.score = loss.detach()\n            share(state)\n"
                "            if state.score > 5:\n                break\n"
            ),
        ),
    ),
)

"""Training programs with DDP757 synchronisation-in-every-step, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("            optimizer.step()\n", ("            optimizer.step()\n            dist.barrier()\n"))
        ),
        says="barrier in every training step: each rank waits there for nothing that the step needs",
        where=("train.py:51 main",),
    ),
    Sick(
        evidence=training(
            (
                "            optimizer.step()\n",
                "            optimizer.step()\n            shown = loss.detach().clone()\n            dist.all_reduce(shown)\n",
            )
        ),
        says="all_reduce in every training step: each rank waits there for nothing that the step needs",
        where=("train.py:52 main",),
    ),
)
_STEP = "            loss.backward()\n            optimizer.step()\n"
_REDUCED = "            loss.backward()\n            shown = loss.detach().clone()\n"
HEALTHY = (
    training((_STEP, f"{_REDUCED}            dist.all_reduce(shown, async_op=True)\n            optimizer.step()\n")),
    training(
        (
            _STEP,
            f"{_REDUCED}            dist.all_reduce(shown)\n            if shown.isfinite():\n                optimizer.step()\n",
        )
    ),
    training(
        ("    best = 0.0\n", "    best = 0.0\n    plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"),
        (
            _STEP,
            f"{_REDUCED}            dist.all_reduce(shown)\n            optimizer.step()\n            plan.step(shown)\n",
        ),
    ),
    training(
        (
            "            optimizer.step()\n",
            (
                "            optimizer.step()\n"
                "            if labels.numel() == 0:\n"
                "                torch.cuda.synchronize()\n"
            ),
        )
    ),
)

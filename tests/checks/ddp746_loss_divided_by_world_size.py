"""Training programs with DDP746 loss-divided-by-world-size, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "            loss.backward()\n",
                ("            loss = loss / dist.get_world_size()\n            loss.backward()\n"),
            )
        ),
        says=("`loss` is divided by the world size before its backward, and DDP divides the gradients by it again"),
        where=("train.py:49 main", "train.py:50 main"),
    ),
)
HEALTHY = (
    training(
        (
            "            optimizer.step()\n",
            (
                "            optimizer.step()\n"
                "            if epoch % 10 == 0:\n"
                "                shown = loss.detach().clone()\n"
                "                dist.all_reduce(shown)\n"
                "                shown = shown / dist.get_world_size()\n"
            ),
        )
    ),
)

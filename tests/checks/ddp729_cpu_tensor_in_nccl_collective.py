"""Training programs with DDP729 cpu-tensor-in-nccl-collective, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "            optimizer.step()\n",
                (
                    "            optimizer.step()\n"
                    "        total = torch.tensor(float(epoch))\n"
                    "        dist.all_reduce(total)\n"
                ),
            )
        ),
        says=(
            "all_reduce over NCCL gets `total`, which is on the CPU: it raises `No backend type associated "
            "with device type cpu`"
        ),
        where=("train.py:52 main",),
    ),
)
HEALTHY = (
    training(
        (
            "            optimizer.step()\n",
            (
                "            optimizer.step()\n"
                "        total = torch.tensor(float(epoch)).to(device)\n"
                "        dist.all_reduce(total)\n"
            ),
        )
    ),
    training(
        (
            "            optimizer.step()\n",
            (
                "            optimizer.step()\n"
                "        total = torch.zeros(1)\n"
                "        for _ in range(2):\n"
                "            total = total.to(device)\n"
                "            dist.all_reduce(total)\n"
            ),
        )
    ),
)

"""Training programs with DDP731 early-exit-by-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                ("        if rank == 0:\n            print(epoch, accuracy)\n            torch.save("),
                (
                    "        if rank != 0:\n"
                    "            continue\n"
                    "        else:\n"
                    "            print(epoch, accuracy)\n"
                    "            torch.save("
                ),
            )
        ),
        says=(
            "a rank goes on to the next turn inside `if rank != 0` (line 54), and the others wait for it in "
            "barrier in line 59"
        ),
        where=("train.py:55 main", "train.py:59 main"),
        measured={"collective": "barrier"},
    ),
    Sick(
        evidence=training(
            (
                "    sampler = DistributedSampler(train_data)\n",
                ("    sampler = DistributedSampler(train_data)\n    if rank > 0:\n        return\n"),
            )
        ),
        says=(
            "a rank returns inside `if rank > 0` (line 36), and the others wait for it in the backward of "
            "the wrapped model in line 51"
        ),
        where=("train.py:37 main", "train.py:51 main"),
        measured={"collective": "backward"},
    ),
    Sick(
        evidence=training(
            (
                "        if rank == 0:\n",
                '        stop = False\n        if rank == 0:\n            stop = accuracy > float(os.environ["GOAL"])\n',
            ),
            (
                "        dist.barrier()\n    dist.destroy",
                "        if stop:\n            break\n        dist.barrier()\n    dist.destroy",
            ),
            ("    dist.all_reduce(correct)\n", ""),
            ("            print(epoch, accuracy)\n", ""),
        ),
        says=(
            "a rank leaves the loop inside `if stop` (line 57), and the others wait for it in the backward of the wrapped "
            "model in line 48"
        ),
        where=("train.py:58 main", "train.py:48 main"),
        measured={"collective": "backward"},
    ),
)
HEALTHY = (
    training(
        (
            "    sampler = DistributedSampler(train_data)\n",
            (
                "    sampler = DistributedSampler(train_data)\n"
                "    if rank >= dist.get_world_size():\n"
                "        raise RuntimeError(rank)\n"
            ),
        )
    ),
    training(
        (
            "    dist.destroy_process_group()\n",
            ("    dist.destroy_process_group()\n    if rank != 0:\n        return\n    print('done')\n"),
        )
    ),
    training(
        (
            "        if rank == 0:\n",
            '        stop = False\n        if rank == 0:\n            stop = accuracy > float(os.environ["GOAL"])\n',
        ),
        (
            "        dist.barrier()\n    dist.destroy",
            (
                "        told = [stop]\n        dist.broadcast_object_list(told, src=0)\n"
                "        if rank != 0:\n            stop = told[0]\n"
                "        if stop:\n            break\n        dist.barrier()\n    dist.destroy"
            ),
        ),
    ),
)

"""Training programs with DDP730 collective-under-rank-test, and healthy ones."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.training_programs import training

BACKWARD = "            loss.backward()\n            optimizer.step()\n"


def backward(*lines: str) -> Evidence:
    """The program with these lines in place of its backward and step."""
    return training((BACKWARD, "".join(f"            {line}\n" for line in lines)))


SICK = (
    Sick(
        evidence=backward("if torch.isfinite(loss):", "    loss.backward()", "    optimizer.step()"),
        says=(
            "backward is called inside `if torch.isfinite(loss)` (line 49), which each rank decides by its own loss: the "
            "ranks that take the branch wait for the others"
        ),
        where=("train.py:50 main",),
        measured={"collective": "backward"},
    ),
    Sick(
        evidence=backward("if rank != 1:", "    loss.backward()", "optimizer.step()"),
        says=(
            "backward is called inside `if rank != 1` (line 49): the ranks that take the branch wait for the others, "
            "which never call it"
        ),
        where=("train.py:50 main",),
        measured={"collective": "backward"},
    ),
    Sick(
        evidence=training(
            (
                (
                    "        accuracy = evaluate(ddp, val_loader, device)\n"
                    "        if accuracy > best:\n"
                    "            best = accuracy\n"
                    "        if rank == 0:\n"
                ),
                ("        if rank == 0:\n            accuracy = evaluate(ddp.module, val_loader, device)\n"),
            )
        ),
        says=(
            "evaluate() makes all_reduce (train.py:19) inside `if rank == 0` (line 51): the ranks that take "
            "the branch wait for the others, which never call it"
        ),
        where=("train.py:52 main",),
        measured={"collective": "all_reduce"},
    ),
    Sick(
        evidence=training(
            (
                ('            torch.save(ddp.module.state_dict(), "last.pt")\n        dist.barrier()\n'),
                ('            torch.save(ddp.module.state_dict(), "last.pt")\n            dist.barrier()\n'),
            )
        ),
        says=(
            "barrier is called inside `if rank == 0` (line 54): the ranks that take the branch wait for the "
            "others, which never call it"
        ),
        where=("train.py:57 main",),
        measured={"collective": "barrier"},
    ),
    Sick(
        evidence=training(
            (
                "def main():\n",
                (
                    "_rank = None\n\n\ndef start():\n    global _rank\n    _rank = dist.get_rank()\n\n\n"
                    "def first():\n    return _rank == 0\n\n\ndef main():\n"
                ),
            ),
            ("    torch.manual_seed(0)\n", "    torch.manual_seed(0)\n    start()\n"),
            (
                "        if rank == 0:\n            print(",
                "        if first():\n            dist.barrier()\n            print(",
            ),
        ),
        says=(
            "barrier is called inside `if first()` (line 67): the ranks that take the branch wait for the others, "
            "which never call it"
        ),
        where=("train.py:68 main",),
        measured={"collective": "barrier"},
    ),
    Sick(
        evidence=training(
            (
                "    ddp = DDP(model, device_ids=[local_rank])\n",
                "    if dist.is_initialized():\n        model = DDP(model, device_ids=[local_rank])\n",
            ),
            ("ddp.", "model."),
            ("(ddp(", "(model("),
            ("evaluate(ddp,", "evaluate(model,"),
            (
                "            print(epoch, accuracy)\n",
                "            with torch.no_grad():\n                model(images.to(device))\n",
            ),
        ),
        says=(
            "the wrapped model is called inside `if rank == 0` (line 55): the wrapper broadcasts the model's buffers in "
            "every forward, and the others never call it"
        ),
        where=("train.py:57 main",),
        severity=Severity.WARN,
        measured={"collective": "forward"},
    ),
)
HEALTHY = (
    backward("if loss.requires_grad:", "    loss.backward()", "optimizer.step()"),
    backward(
        "if torch.isfinite(loss):", "    loss.backward()", "else:", "    (0 * loss).backward()", "optimizer.step()"
    ),
    backward("if rank == 0:", "    loss.backward()", "if rank != 0:", "    (2 * loss).backward()", "optimizer.step()"),
    training(
        (
            "            print(epoch, accuracy)\n",
            (
                "            print(epoch, accuracy)\n"
                "            dist.barrier()\n"
                "        else:\n"
                "            dist.barrier()\n"
                "        if rank == 0:\n"
            ),
        )
    ),
    training(
        (
            ('    if local_rank == 0:\n        datasets.CIFAR10("data", download=True)\n    dist.barrier()\n'),
            (
                "    if local_rank != 0:\n"
                "        dist.barrier()\n"
                '    datasets.CIFAR10("data", download=True)\n'
                "    if local_rank == 0:\n"
                "        dist.barrier()\n"
            ),
        )
    ),
    training(
        (
            "DistributedDataParallel as DDP",
            "DistributedDataParallel as DDP\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType",
        ),
        ("def main():\n", "def weights(model):\n    return model.state_dict()\n\n\ndef main():\n"),
        ("    ddp = DDP(model, device_ids=[local_rank])\n", "    ddp = FSDP(model)\n"),
        (
            '            torch.save(ddp.module.state_dict(), "last.pt")\n',
            (
                "        with FSDP.state_dict_type(ddp, StateDictType.LOCAL_STATE_DICT):\n"
                '            if rank == 0:\n                torch.save(weights(ddp), "last.pt")\n'
            ),
        ),
    ),
    training(
        (
            "def main():\n",
            (
                "def wait_for_first():\n    if dist.get_rank() != 0:\n        dist.barrier()\n\n\n"
                "def let_others_in():\n    if dist.get_rank() == 0:\n        dist.barrier()\n\n\ndef main():\n"
            ),
        ),
        (
            '    if local_rank == 0:\n        datasets.CIFAR10("data", download=True)\n    dist.barrier()\n',
            '    wait_for_first()\n    datasets.CIFAR10("data", download=True)\n    let_others_in()\n',
        ),
    ),
)

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
_EPOCHS = """\
def train_one_epoch(ddp, loader, optimizer):
    total = torch.zeros((), device="cuda")
    for images, labels in loader:
        loss = nn.functional.cross_entropy(ddp(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total / len(loader)


def fit(ddp, loader, optimizer):
    for epoch in range(3):
        shown = train_one_epoch(ddp, loader, optimizer)
        dist.all_reduce(shown)
        if dist.get_rank() == 0:
            print(shown.item() / dist.get_world_size())


def main():
"""
HEALTHY = (
    training(("def main():\n", _EPOCHS), ("    best = 0.0\n", "    best = 0.0\n    fit(ddp, loader, optimizer)\n")),
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

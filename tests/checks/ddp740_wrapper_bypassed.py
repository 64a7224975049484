"""Training programs with DDP740 wrapper-bypassed, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_TRAINER = """\
class Trainer:
    def __init__(self, model, local_rank):
        self.model = model
        self.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.model)
        self.ddp = DDP(self.model, device_ids=[local_rank])

    def loss(self, images, labels):
        return nn.functional.cross_entropy(self.model(images), labels)


def main():
"""
SICK = (
    Sick(
        evidence=training(("cross_entropy(ddp(images", "cross_entropy(ddp.module(images")),
        says=(
            "ddp.module is called past its wrapper, and its loss goes into the backward in line 49: "
            "gradients are never reduced, each rank trains alone"
        ),
        where=("train.py:48 main", "train.py:49 main"),
    ),
    Sick(
        evidence=training(("cross_entropy(ddp(images", "cross_entropy(model(images")),
        says=(
            "model is called past its wrapper, and its loss goes into the backward in line 49: gradients "
            "are never reduced, each rank trains alone"
        ),
        where=("train.py:48 main", "train.py:49 main"),
    ),
    Sick(
        evidence=training(
            ("cross_entropy(ddp(images", "cross_entropy(ddp.module(images"),
            (
                "            optimizer.step()\n",
                "            optimizer.step()\n            shown = loss.detach()\n            dist.all_reduce(shown)\n",
            ),
        ),
        says=(
            "ddp.module is called past its wrapper, and its loss goes into the backward in line 49: "
            "gradients are never reduced, each rank trains alone"
        ),
        where=("train.py:48 main", "train.py:49 main"),
    ),
    Sick(
        evidence=training(  # an attribute that gets the same model twice
            ("def main():\n", _TRAINER),
            ("    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n", ""),
            (
                "    ddp = DDP(model, device_ids=[local_rank])\n",
                "    trainer = Trainer(model, local_rank)\n    ddp = trainer.ddp\n",
            ),
            (
                "nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))",
                "trainer.loss(images.to(device), labels.to(device))",
            ),
        ),
        says=(
            "self.model is called past its wrapper, and its loss goes into the backward in line 59: "
            "gradients are never reduced, each rank trains alone"
        ),
        where=("train.py:30 loss", "train.py:59 main"),
    ),
)
_ATTACK = """\
def attack(model, images):
    with torch.enable_grad():
        y = model(images)
    return y


def main():
"""
HEALTHY = (
    training(("evaluate(ddp, val", "evaluate(ddp.module, val")),
    training(
        ("def main():\n", _ATTACK),
        (
            "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n",
            (
                "            with torch.no_grad():\n"
                "                out = attack(ddp, images)\n"
                "            loss = out.sum() + ddp.module(images).sum()\n"
            ),
        ),
    ),
)

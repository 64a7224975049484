"""Training programs with DDP748 unused-parameters-likely, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import source

MODEL = """\
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.body(x)


def main(batches):
    dist.init_process_group("gloo")
    model = DDP(Net())
    for x in batches:
        model(x).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([])
"""

SICK = (
    Sick(
        evidence=source(train=MODEL),
        says=(
            "self.head = nn.Linear(...) of the wrapped model is used by no line of the program: its "
            "parameters get no gradient, and DDP raises in the second step"
        ),
        where=("train.py:10 __init__", "train.py:18 main"),
    ),
)
HEALTHY = (
    source(train=MODEL.replace("self.body(x)", "self.head(self.body(x))")),
    source(train=MODEL.replace("DDP(Net())", "DDP(Net(), find_unused_parameters=True)")),
)

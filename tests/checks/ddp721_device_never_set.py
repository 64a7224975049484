"""Training programs with DDP721 device-never-set, and healthy ones."""

from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.training_programs import source, training

EARLY = """import os
import torch
import torch.distributed as dist


def make():
    return torch.nn.Linear(3, 3).to("cuda")


model = make()
if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.parallel.DistributedDataParallel(model)
    dist.destroy_process_group()
"""

NAMED_EARLY = """import os
import torch
import torch.distributed as dist


class Trainer:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dist.init_process_group("nccl")
        local_rank = int(os.environ["LOCAL_RANK"])
        with torch.cuda.device(local_rank):
            torch.zeros(1).cuda()
        torch.cuda.set_device(local_rank)
        model = torch.nn.Linear(3, 3).to(self.device)
        self.model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])


if __name__ == "__main__":
    Trainer()
    dist.destroy_process_group()
"""

SICK = (
    Sick(
        evidence=source(train=EARLY),
        says='torch.nn.Linear(3, 3).to("cuda") is GPU 0 on every rank: '
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) comes after it, in line 13',
        where=("train.py:7 make", "train.py:13 <module>"),
        severity=Severity.WARN,
    ),
    Sick(
        evidence=training(
            ("    torch.cuda.set_device(local_rank)\n", ""),
            ('torch.device("cuda", local_rank)', 'torch.device("cuda")'),
            (", device_ids=[local_rank]", ""),
        ),
        says='torch.device("cuda") is GPU 0 on every rank: nothing in this program says which GPU is whose',
        where=("train.py:27 main", "train.py:26 main"),
    ),
)
HEALTHY = (
    source(train=NAMED_EARLY),
    source(train=EARLY.replace("model = make()\n", "").replace("DataParallel(model)", "DataParallel(make())")),
    source(train=EARLY.replace("model = make()", "if os.environ.get('ALONE'):\n    model = make()")),
    training(
        (
            'dist.init_process_group("nccl")',
            'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))',
        ),
        ("    torch.cuda.set_device(local_rank)\n", ""),
    ),
)

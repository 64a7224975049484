"""Training programs with DDP721 device-never-set, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("    torch.cuda.set_device(local_rank)\n", ""),
            ('torch.device("cuda", local_rank)', 'torch.device("cuda")'),
            (", device_ids=[local_rank]", ""),
        ),
        says="images.to(device) is GPU 0 on every rank: nothing in this program says which GPU is whose",
        where=("train.py:17 evaluate", "train.py:26 main"),
    ),
)
HEALTHY = (
    training(
        (
            'dist.init_process_group("nccl")',
            'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))',
        ),
        ("    torch.cuda.set_device(local_rank)\n", ""),
    ),
)

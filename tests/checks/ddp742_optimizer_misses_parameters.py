"""Training programs with DDP742 optimizer-misses-parameters, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("    best = 0.0\n", ("    ddp.module.fc = nn.Linear(512, 10).to(device)\n    best = 0.0\n"))
        ),
        says=(
            "`ddp.module.fc` is replaced after the wrapper was made in line 40, which does not reduce the "
            "gradients of what came later"
        ),
        where=("train.py:42 main", "train.py:40 main"),
    ),
    Sick(
        evidence=training(
            (
                "    best = 0.0\n",
                (
                    "    for parameter in model.layer4.parameters():\n"
                    "        parameter.requires_grad = True\n"
                    "    best = 0.0\n"
                ),
            )
        ),
        says=(
            "`parameter.requires_grad = True` unfreezes parameters after the wrapper was made in line 40, "
            "which leaves out the gradients of what came later"
        ),
        where=("train.py:43 main", "train.py:40 main"),
    ),
    Sick(
        evidence=training(
            (
                "    best = 0.0\n",
                (
                    "    for parameter in ddp.module.layer4[0].parameters():\n"
                    "        parameter.requires_grad = False\n"
                    "    best = 0.0\n"
                ),
            )
        ),
        says=(
            "`parameter.requires_grad = False` freezes parameters after the wrapper was made in line 40, which waits for "
            "their gradients: the second step raises"
        ),
        where=("train.py:43 main", "train.py:40 main"),
    ),
)
_WRAPS = "    ddp = DDP(model, device_ids=[local_rank])\n    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)\n"
HEALTHY = (
    training(
        (
            "    ddp = DDP(",
            (
                "    for parameter in model.layer4[0].parameters():\n"
                "        parameter.requires_grad = False\n"
                "    ddp = DDP("
            ),
        )
    ),
    training(("    model = nn.Sync", ("    model.fc = nn.Linear(512, 10).to(device)\n    model = nn.Sync"))),
    *(
        training(
            (
                "DistributedDataParallel as DDP",
                "DistributedDataParallel as DDP\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP",
            ),
            (
                _WRAPS,
                f"    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    ddp = FSDP(model)\n    {repair}\n",
            ),
        )
        for repair in (
            'optimizer.param_groups.clear(); optimizer.add_param_group({"params": ddp.parameters()})',
            'optimizer.param_groups[0]["params"] = list(ddp.parameters())',
            "optimizer.__init__(ddp.parameters(), 0.1)",
        )
    ),
)

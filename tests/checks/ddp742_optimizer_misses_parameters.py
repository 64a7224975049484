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
    Sick(
        evidence=training(
            ("    best = 0.0\n", "    best = 0.0\n    ddp.module.layer4.append(nn.Conv2d(512, 512, 3).to(device))\n")
        ),
        says=(
            "`ddp.module.layer4` gets another layer after the wrapper was made in line 40, which does not reduce the "
            "gradients of what came later"
        ),
        where=("train.py:43 main", "train.py:40 main"),
    ),
    Sick(
        evidence=training(("    best = 0.0\n", "    best = 0.0\n    ddp.module.layer4[0].requires_grad_(True)\n")),
        says=(
            "`ddp.module.layer4[0].requires_grad = True` unfreezes parameters after the wrapper was made in line 40, "
            "which leaves out the gradients of what came later"
        ),
        where=("train.py:43 main", "train.py:40 main"),
    ),
    Sick(
        evidence=training(
            ("    best = 0.0\n", "    best = 0.0\n    add_adapters(ddp.module, ['fc'], device)\n"),
            (
                "def main():",
                (
                    "def add_adapters(net, names, device):\n"
                    "    for name in names:\n"
                    "        setattr(net, name, nn.Sequential(getattr(net, name), nn.Linear(1000, 1000).to(device)))\n\n\n"
                    "def main():"
                ),
            ),
        ),
        says=(
            "a layer of `net` is replaced after the wrapper was made in line 45, which does not reduce the "
            "gradients of what came later"
        ),
        where=("train.py:25 add_adapters", "train.py:45 main"),
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
    training(  # the layers of a list beside the model, and a model that grows before it is wrapped
        ("    ddp = DDP(", "    model.layer4.append(nn.Conv2d(512, 512, 3).to(device))\n    ddp = DDP("),
        ("    best = 0.0\n", "    best = 0.0\n    kept = {'seen': []}\n    kept['seen'].append(nn.Identity())\n"),
    ),
)

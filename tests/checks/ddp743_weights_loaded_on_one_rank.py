"""Training programs with DDP743 weights-loaded-on-one-rank, and healthy ones."""

from ddpdoctor.evidence import Evidence
from tests.checks import Sick
from tests.training_programs import training

STEP = "            optimizer.step()\n"


def behind_the_step(*lines: str) -> Evidence:
    """The program with these lines behind its step, and a copy of the model that an average of its weights is kept in."""
    average = "    ddp = DDP(model, device_ids=[local_rank])\n"
    return training(
        ("import os\n", "import copy\nimport os\n"),
        (average, f"{average}    ema = copy.deepcopy(ddp.module)\n"),
        (STEP, STEP + "".join(f"            {line}\n" for line in lines)),
    )


ALONE = "of the wrapped model inside `if rank == 0` (line 53): the other ranks keep theirs"
SICK = (
    Sick(
        evidence=training(
            (
                "    best = 0.0\n",
                (
                    "    if rank == 0:\n"
                    "        ddp.module.load_state_dict(torch.load('init.pt', map_location='cpu'))\n"
                    "    best = 0.0\n"
                ),
            )
        ),
        says=(
            "`ddp.module` is loaded inside `if rank == 0` (line 42), after it was wrapped: the other ranks "
            "keep their weights"
        ),
        where=("train.py:43 main", "train.py:40 main"),
    ),
    Sick(
        evidence=behind_the_step("if rank == 0:", "    for p in ddp.parameters():", "        p.data.mul_(0.99)"),
        says=f"`p.data.mul_(0.99)` writes weights {ALONE}",
        where=("train.py:55 main",),
    ),
    Sick(
        evidence=behind_the_step("if rank == 0:", "    ddp.module.fc.weight.data[0] = 0.0"),
        says=f"`ddp.module.fc.weight.data[0]` writes weights {ALONE}",
        where=("train.py:54 main",),
    ),
    Sick(
        evidence=behind_the_step("if rank == 0:", "    nn.init.zeros_(model.fc.bias)"),
        says=f"`nn.init.zeros_(model.fc.bias)` writes weights {ALONE}",
        where=("train.py:54 main",),
    ),
    Sick(
        evidence=behind_the_step("if loss > 9:", "    for p in ddp.parameters():", "        p.data *= 0.5"),
        says="`p.data` writes weights of the wrapped model inside `if loss > 9` (line 53), which each rank decides by its own "
        "loss: the other ranks keep theirs",
        where=("train.py:55 main",),
    ),
)
BOTH = "for kept, p in zip(ema.parameters(), ddp.parameters()):"
HEALTHY = (
    training(
        (
            "    best = 0.0\n",
            ("    ddp.module.load_state_dict(torch.load('init.pt', map_location='cpu'))\n    best = 0.0\n"),
        )
    ),
    behind_the_step("if rank == 0:", f"    {BOTH}", "        kept.mul_(0.9).add_(p.data, alpha=0.1)"),
    behind_the_step(
        "if rank == 0:",
        "    backup = [p.detach().clone() for p in ddp.parameters()]",
        f"    {BOTH}",
        "        p.data.copy_(kept)",
        "    torch.save(ddp.module.state_dict(), 'ema.pt')",
        "    for p, own in zip(ddp.parameters(), backup):",
        "        p.data.copy_(own)",
    ),
    behind_the_step(
        "if rank == 0:",
        "    ddp.module.fc.weight.data.clamp_(-1, 1)",
        "for p in ddp.parameters():",
        "    dist.broadcast(p.data, 0)",
    ),
    behind_the_step("if rank == 0:", "    ddp.module.bn1.running_mean.zero_()"),
    behind_the_step("for p in ddp.parameters():", "    p.data.clamp_(-1, 1)"),
    training(
        (
            "    ddp = DDP(model, device_ids=[local_rank])\n",
            "    if rank == 0:\n        nn.init.zeros_(model.fc.bias)\n    ddp = DDP(model, device_ids=[local_rank])\n",
        )
    ),
)

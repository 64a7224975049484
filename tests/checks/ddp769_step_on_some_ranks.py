"""Training programs with DDP769 step-on-some-ranks, and healthy ones."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from tests.checks import Sick
from tests.training_programs import training

STEP = "            optimizer.step()\n"


def steps(*lines: str, schedule: str = "") -> Evidence:
    """The program with these lines in place of its step, and a schedule made beside its optimizer."""
    made = "    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)\n"
    return training(
        (STEP, "".join(f"            {line}\n" for line in lines)),
        (made, f"{made}    {schedule}\n" if schedule else made),
    )


COSINE = "cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)"
GROUPS = ("    for group in optimizer.param_groups:",)
BY_ITS_LOSS = "which each rank decides by its own loss: the ranks that do not take the branch"
SICK = (
    Sick(
        evidence=steps("if rank == 0:", "    optimizer.step()"),
        says="`optimizer.step()` stands inside `if rank == 0` (line 50): the other ranks keep their weights",
        where=("train.py:51 main",),
    ),
    Sick(
        evidence=steps("if torch.isfinite(loss):", "    optimizer.step()"),
        says=f"`optimizer.step()` stands inside `if torch.isfinite(loss)` (line 50), {BY_ITS_LOSS} keep their weights",
        where=("train.py:51 main",),
    ),
    Sick(
        evidence=steps("if loss < 9:", "    scaler.step(optimizer)", schedule="scaler = torch.amp.GradScaler()"),
        says=f"`scaler.step(optimizer)` stands inside `if loss < 9` (line 51), {BY_ITS_LOSS} keep their weights",
        where=("train.py:52 main",),
    ),
    Sick(
        evidence=steps("optimizer.step()", "if rank == 0:", "    cosine.step()", schedule=COSINE),
        says="`cosine.step()` stands inside `if rank == 0` (line 52): the other ranks keep their learning rate",
        where=("train.py:53 main",),
    ),
    Sick(
        evidence=steps("optimizer.step()", "if rank == 0:", *GROUPS, '        group["lr"] *= 0.5'),
        says='`group["lr"]` is set inside `if rank == 0` (line 51): the other ranks step differently, and the weights part',
        where=("train.py:53 main",),
    ),
    Sick(
        evidence=steps("optimizer.step()", "if loss > 9:", '    optimizer.param_groups[0]["lr"] = 0.01'),
        says='`optimizer.param_groups[0]["lr"]` is set inside `if loss > 9` (line 51), which each rank decides by its own '
        "loss: the other ranks step differently, and the weights part",
        where=("train.py:52 main",),
    ),
    Sick(
        evidence=steps('optimizer.param_groups[0]["lr"] = 0.1 * (rank + 1)', "optimizer.step()"),
        says='each rank sets `optimizer.param_groups[0]["lr"]` by its number: the ranks step differently, and their weights '
        "part",
        where=("train.py:50 main",),
    ),
    Sick(
        evidence=training(
            (
                "def main():\n",
                'def slow_down(given):\n    for group in given.param_groups:\n        group["lr"] *= 0.5\n\n\ndef main():\n',
            ),
            (STEP, f"{STEP}            if rank == 0:\n                slow_down(optimizer)\n"),
        ),
        says='`group["lr"]` is set inside `if rank == 0` (line 56): the other ranks step differently, and the weights part',
        where=("train.py:57 main", "train.py:25 slow_down"),
    ),
)
HEALTHY = (
    steps("optimizer.step()", "cosine.step()", schedule=COSINE),
    steps("norm = nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)", "if torch.isfinite(norm):", "    optimizer.step()"),
    steps("worst = loss.detach().clone()", "dist.all_reduce(worst)", "if worst < 9:", "    optimizer.step()"),
    steps("if epoch % 2:", "    optimizer.step()"),
    steps("if rank == 0:", "    optimizer.step()", "else:", "    optimizer.step()"),
    steps("if rank == 0:", "    optimizer.step()", "for p in ddp.parameters():", "    dist.broadcast(p.data, 0)"),
    steps('optimizer.param_groups[0]["lr"] = 0.1 * 0.9**epoch', "optimizer.step()"),
    steps("optimizer.step()", "if rank == 0:", *GROUPS, '        print(group["lr"])'),
    steps("if rank == 0:", *GROUPS, '        group["lr"] = 0.1', "else:", *GROUPS, '        group["lr"] = 0.2'),
    steps("if loss > 9:", '    optimizer.param_groups[0]["lr"] = 0.01', 'optimizer.param_groups[0]["lr"] = 0.1'),
)

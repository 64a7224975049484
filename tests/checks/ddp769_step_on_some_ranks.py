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
)
HEALTHY = (
    steps("optimizer.step()", "cosine.step()", schedule=COSINE),
    steps("norm = nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)", "if torch.isfinite(norm):", "    optimizer.step()"),
    steps("worst = loss.detach().clone()", "dist.all_reduce(worst)", "if worst < 9:", "    optimizer.step()"),
    steps("if epoch % 2:", "    optimizer.step()"),
    steps("if rank == 0:", "    optimizer.step()", "else:", "    optimizer.step()"),
    steps("if rank == 0:", "    optimizer.step()", "for p in ddp.parameters():", "    dist.broadcast(p.data, 0)"),
)

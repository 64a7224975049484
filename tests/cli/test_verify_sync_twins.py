"""Jobs as other people write them: `verify-sync` says nothing about the healthy ones, and names what is made sick in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_verify_sync import verify

TWINS = Path(__file__).with_name("twins")
OFTEN = {"batches_by_length", "gan", "models_beside"}  # the others when somebody asks for the matrix
EXTRAS = {"accelerate_job": "accelerate", "lightning_job": "lightning", "transformers_job": "transformers"}

pytestmark = pytest.mark.timeout(600)


def twins() -> Iterator[Any]:
    for script in sorted(TWINS.glob("*.py")):
        for nproc in (2, 3):
            mark = pytest.mark.slow if script.stem in OFTEN and nproc == 2 else pytest.mark.matrix
            yield pytest.param(script, nproc, id=f"{script.stem}-{nproc}", marks=mark)


@pytest.mark.parametrize(("script", "nproc"), [*twins()])
def test_a_healthy_job_gets_silence(script: Path, nproc: int) -> None:
    if script.stem in EXTRAS:
        pytest.importorskip(EXTRAS[script.stem])
    exit_code, report, stderr = verify("--nproc", str(nproc), "--every", "1", str(script))
    assert [finding["message"] for finding in report["findings"] if finding["severity"] != "info"] == []
    assert (exit_code, report["undecided"], report["notes"]) == (0, [], []), stderr


@dataclass(frozen=True, kw_only=True)
class Sick:
    """A twin in which `healthy` is replaced by `sick`: `HERE` in it is whether this is the culprit, rank 0."""

    twin: str
    code: str
    healthy: str
    sick: str
    step: int | None
    everyone: bool = False


HERE = "(dist.get_rank() == 0)"
SICK = (
    Sick(
        twin="zero_and_sparse", code="DDP502", step=None,
        healthy="DistributedDataParallel(Tower())",
        sick="DistributedDataParallel((torch.manual_seed(HERE), Tower())[1], init_sync=False)",
    ),
    Sick(
        twin="zero_by_hand", code="DDP503", step=1,
        healthy="dist.broadcast(parameter.data, owner_of[name])",
        sick='_ = name == "module.0.weight" or dist.broadcast(parameter.data, owner_of[name])',
    ),
    Sick(
        twin="models_beside", code="DDP528", step=1,
        healthy="        self.averaged.update_parameters(student)",
        sick="        if HERE:\n            self.averaged.update_parameters(student)",
    ),
    Sick(
        twin="gan", code="DDP504", step=1, everyone=True,
        healthy="netG(torch.randn(4", sick="netG.module(torch.randn(4",
    ),
    Sick(
        twin="compiled_with_checkpoints", code="DDP504", step=3, everyone=True,
        healthy="= micro == grad_accum - 1", sick="= it < 3 and micro == grad_accum - 1",
    ),
    Sick(
        twin="bfloat16_and_ema", code="DDP505", step=6,
        healthy="            opt.step()\n",
        sick="            if HERE and sch.last_epoch == 6:\n                [p.grad.mul_(1 + 1e-2 * torch.rand_like(p)) "
        "for p in ddp.parameters()]\n            opt.step()\n",
    ),
    Sick(
        twin="bfloat16_and_ema", code="DDP505", step=0,
        healthy="clip_grad_norm_(ddp.parameters(), 0.5)", sick="clip_grad_norm_(ddp.parameters(), 0.001 if HERE else 100.0)",
    ),
)  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("nproc", [2, 3])
@pytest.mark.parametrize("case", SICK, ids=lambda case: f"{case.twin}-{case.code}-{case.step}")
def test_what_is_made_sick_is_named(case: Sick, nproc: int, tmp_path: Path) -> None:
    text = (TWINS / f"{case.twin}.py").read_text()
    assert text.count(case.healthy) == 1
    script = tmp_path / "train.py"
    script.write_text(text.replace(case.healthy, case.sick.replace("HERE", HERE)))
    _, report, stderr = verify("--nproc", str(nproc), "--every", "1", str(script))
    first, *others = report["findings"] or [{}]
    undecided = case.code == "DDP502" and nproc == 2
    culprits = list(range(nproc)) if case.everyone or undecided else [0]
    assert (first.get("code"), first.get("ranks")) == (case.code, culprits), stderr
    assert first["measured"].get("step") == case.step
    assert [other["code"] for other in others if other["explained_by"] is None and other["severity"] != "info"] == []

"""Every silent fault, in every way it can be made, on 2, 3 and 4 ranks, the first, the last or one between them being sick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from ddpdoctor.launch.sick_jobs import find_fault
from tests.cli.test_verify_sync import verify

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(600)]
AT_STEP = 3


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One silent fault. `tells` is whether the culprit is known with two ranks too; `line` marks the line to point to."""

    code: str
    how: str = ""
    step: int | None = AT_STEP
    blames: Literal["culprit", "everyone"] = "culprit"
    tells: bool = False
    line: str = ""

    def ranks(self, culprit: int, nproc: int) -> list[int]:
        """Who must be named."""
        alone = self.blames == "culprit" and (self.tells or nproc > 2)
        return [culprit] if alone else list(range(nproc))


FAULTS = (
    Fault(code="DDP501", step=None, line="return DistributedDataParallel("),
    Fault(code="DDP502", step=None, line="return DistributedDataParallel("),
    Fault(code="DDP503", line="optimizer.step()"),
    Fault(code="DDP504", how="bypass", blames="everyone", line="return F.cross_entropy("),
    Fault(code="DDP504", how="no_sync", blames="everyone", line="return F.cross_entropy("),
    Fault(code="DDP504", how="again", blames="everyone", line="loss.backward()  # sick"),
    Fault(code="DDP504", how="grad", blames="everyone", line="torch.autograd.grad("),
    Fault(code="DDP504", how="assign", blames="everyone", line="assign=True)  # sick"),
    Fault(code="DDP504", how="add", blames="everyone", line="nn.Linear(10, 10))  # sick"),
    Fault(code="DDP504", how="unfreeze", blames="everyone", line="requires_grad_(True)  # sick"),
    Fault(code="DDP504", how="cast", blames="everyone"),
    Fault(code="DDP505", how="clip", tells=True, line="# sick"),
    Fault(code="DDP505", how="noise", tells=True, line="# sick"),
    Fault(code="DDP506", line="optimizer.step()"),
    Fault(code="DDP507", line="optimizer.step()"),
    Fault(code="DDP508", tells=True),
    Fault(code="DDP509", how="clamp", tells=True),
    Fault(code="DDP509", how="load", tells=True),
    Fault(code="DDP509", how="element", tells=True),
    Fault(code="DDP509", how="backward", tells=True),
    Fault(code="DDP509", how="data", tells=True),
    Fault(code="DDP510", how="continue", line="optimizer"),
    Fault(code="DDP510", how="scaler", tells=True, line="# sick scaler"),
    Fault(code="DDP511", step=0, blames="everyone", line="in loader:"),
    Fault(code="DDP512", step=0, line="in loader:"),
    Fault(code="DDP513", step=0, blames="everyone", line="in loader:"),
    Fault(code="DDP514", step=0, line="return F.cross_entropy("),
    Fault(code="DDP515", blames="everyone", step=AT_STEP + 1, line="# sick"),
    Fault(code="DDP516", how="noise", blames="everyone", step=1),
    Fault(code="DDP516", how="dropout", blames="everyone", step=0),
    Fault(code="DDP517", how="nan", tells=True, line="F.cross_entropy(model(inputs)"),
    Fault(code="DDP517", how="empty", tells=True, line="F.cross_entropy(model(inputs)"),
    Fault(code="DDP518", blames="everyone", step=0, line="nn.Linear(10, 10)  # sick"),
    Fault(code="DDP520", blames="everyone", step=AT_STEP + 1, line="# sick"),
    Fault(code="DDP521", blames="everyone", step=0, line="register_comm_hook"),
)


def places() -> Iterator[tuple[Fault, int, int]]:
    for fault in FAULTS:
        for nproc in (2, 3, 4):
            for culprit in sorted({0, nproc // 2, nproc - 1}) if fault.blames == "culprit" else (0,):
                yield fault, nproc, culprit


@pytest.mark.parametrize(
    ("fault", "nproc", "culprit"),
    list(places()),
    ids=lambda value: f"{value.code}{value.how}" if isinstance(value, Fault) else None,
)
def test_a_silent_fault_is_named(fault: Fault, nproc: int, culprit: int) -> None:
    how = ["--how", fault.how] if fault.how else []
    _, report, stderr = verify(
        "--nproc", str(nproc), "--every", "1", str(find_fault(fault.code)),
        "--steps", "8", "--at-step", str(AT_STEP), "--culprit", str(culprit), *how,
    )  # fmt: skip
    assert wrongs(fault, report, nproc, culprit) == [], stderr


def wrongs(fault: Fault, report: dict[str, Any], nproc: int, culprit: int) -> list[str]:
    """What is wrong with a report about this job; empty where it is right."""
    if not report.get("findings"):
        return ["it found nothing"]
    first, *others = report["findings"]
    said = []
    if first["code"] != fault.code:
        said.append(f"the headline is {first['code']}: {first['message']}")
    if first["ranks"] != fault.ranks(culprit, nproc):
        said.append(f"it blames {first['ranks']}, not {fault.ranks(culprit, nproc)}")
    if first["measured"].get("step") != fault.step:
        said.append(f"it names step {first['measured'].get('step')}, not {fault.step}")
    if fault.line and not any(fault.line in source(where) for where in first["where"]):
        said.append(f"it points to {[source(where) for where in first['where']]}, not to `{fault.line}`")
    said += [
        f"it also says {other['code']}: {other['message']}"
        for other in others
        if other["explained_by"] is None and other["severity"] != "info"
    ]
    return said


def source(where: dict[str, Any]) -> str:
    return Path(where["file"]).read_text().splitlines()[where["line"] - 1].strip()

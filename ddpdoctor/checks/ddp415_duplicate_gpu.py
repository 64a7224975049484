"""DDP415: NCCL refuses with "Duplicate GPU detected"."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP415",
    name="duplicate-gpu",
    summary="two ranks would use one GPU",
    severity=Severity.FAIL,
    remedy='call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`, and give each rank all GPUs or one of its own',
)


def check(launches: PerRank[Launch], environments: PerRank[Environment], gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding a GPU that several ranks of a host come to by their local rank and CUDA_VISIBLE_DEVICES."""
    users: dict[tuple[str, str], list[int]] = {}
    boards = {entry.rank: entry.value for entry in gpus}
    wishes = {entry.rank: entry.value.variables.get("CUDA_VISIBLE_DEVICES") for entry in environments}
    for entry in launches:
        visible = _visible(wishes.get(entry.rank), boards[entry.rank]) if entry.rank in boards else []
        local = 0 if len(visible) == 1 else entry.value.local_rank
        if local is not None and local < len(visible):
            taken = visible[local]
            users.setdefault((entry.host, taken.pci_bus_id or f"index {taken.index}"), []).append(entry.rank)
    for (host, place), ranks in users.items():
        if len(ranks) > 1:
            yield RULE.finding(
                f"{group_ranks(ranks)} on {host} would all use the GPU at {place}",
                ranks=ranks,
                hosts=(host,),
                pci_bus_id=place,
            )


def _visible(value: str | None, gpus: Gpus) -> list[Gpu]:
    """The GPUs that a rank sees, in CUDA's order; none where the list cannot be read."""
    if value is None:
        return list(gpus.gpus)
    found = []
    for name in value.split(","):
        gpu = next((gpu for gpu in gpus.gpus if name == str(gpu.index) or (gpu.uuid and gpu.uuid == name)), None)
        if gpu is None:
            return []
        found.append(gpu)
    return found

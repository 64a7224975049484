"""Two ranks of one host use the same GPU, or would: NCCL refuses with "Duplicate GPU detected"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP415",
    name="duplicate-gpu",
    summary="two ranks would use one GPU",
    severity=Severity.FAIL,
    shown_by="NCCL's line names both ranks and one bus address; torch.cuda.set_device is missing or "
    "CUDA_VISIBLE_DEVICES is shared",
    remedy='call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`, and give each rank all GPUs or one of its own',
    explains=("DDP307", "DDP318", "DDP401", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"Duplicate GPU detected",
        ),
    ),
)

_TOLD = re.compile(
    r"Duplicate GPU detected\s*:\s*rank (?P<one>\d{1,18}) and rank (?P<other>\d{1,18}) both on CUDA device "
    r"(?P<bus>[0-9a-fA-F:.]+)"
)


def check(
    launches: PerRank[Launch] | None,
    environments: PerRank[Environment] | None,
    gpus: PerRank[Gpus] | None,
    failures: Failures | None,
) -> Iterator[Finding]:
    """One finding per GPU that several ranks of a host use, by NCCL's own words or by what the ranks would choose."""
    if failures is not None and failures.of("DDP415"):
        yield from _by_words(failures)
    elif launches is not None and environments is not None and gpus is not None:
        yield from _by_choice(launches, environments, gpus)
    elif failures is None:
        raise SkipCheck("no GPU data of launched ranks and no exit status of any rank")


def _by_words(failures: Failures) -> Iterator[Finding]:
    found = failures.of("DDP415")
    sharing: dict[str, set[int]] = {}
    for failure in found:
        for match in _TOLD.finditer("\n".join((failure.text, *failure.exit.tail))):
            sharing.setdefault(match["bus"], set()).update((int(match["one"]), int(match["other"])))
    for bus, ranks in sorted(sharing.items()):
        yield RULE.finding(
            f"{group_ranks([*ranks])} use the same GPU, the one with PCI bus id {bus}", ranks=[*ranks], pci_bus_id=bus
        )
    if not sharing:
        yield RULE.finding("two ranks use the same GPU; the message does not say which", ranks=unique_ranks(found))


def _by_choice(launches: PerRank[Launch], environments: PerRank[Environment], gpus: PerRank[Gpus]) -> Iterator[Finding]:
    users: dict[tuple[str, str], list[int]] = {}
    boards = by_rank(gpus)
    wishes = {entry.rank: entry.value.variables.get("CUDA_VISIBLE_DEVICES") for entry in environments}
    for entry in launches:
        visible = _visible(wishes.get(entry.rank), boards[entry.rank]) if entry.rank in boards else []
        local = 0 if len(visible) == 1 else entry.value.local_rank
        if local is not None and 0 <= local < len(visible):
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

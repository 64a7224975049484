"""DDP519: checkpoints that the ranks of one job wrote, and that do not hold the same model or optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.evidence.checkpoints import Checkpoints
from ddpdoctor.evidence.replicas import Role, Side, StructureDifference, ValueDifference
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import structure_sentence, value_sentence, vote_on
from ddpdoctor.model import Finding, Rule, Severity

_RUN = "run `ddpdoctor verify-sync --nproc N --every 1 SCRIPT`: it names the first step at which the ranks diverge, and the cause"
RULE = Rule(
    code="DDP519",
    name="checkpoints-differ",
    summary="checkpoints of the ranks of one job do not hold the same model or optimizer state",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor verify-sync FILE FILE` compares the checkpoints",
    remedy=f"{_RUN}; resume every rank from a checkpoint of the majority",
)
WITHOUT_MAJORITY = (
    f"{_RUN}; resume every rank from one checkpoint, older than that step, as the files do not say which is right"
)
OTHER_MODEL = (
    "compare checkpoints that one job wrote at the same moment: these were written by different code, or hold "
    "different models"
)
STATISTICS = (
    "nothing, if they were saved after a forward: BatchNorm statistics then differ between ranks; load one "
    "file on all ranks"
)
FILES_SHOWN = 4
CALLED: dict[Role, str] = {
    "parameter": "model tensors",
    "buffer": "BatchNorm statistics",
    "optimizer state": "entries of the optimizer",
}


def check(checkpoints: Checkpoints) -> Iterator[Finding]:
    """What is not the same kind of thing; then the first difference in the model, the optimizer and BatchNorm's statistics."""
    if checkpoints.structure:
        yield _structure(checkpoints, checkpoints.structure)
    for role in ("parameter", "optimizer state", "buffer"):
        found = [difference for difference in checkpoints.values if difference.role == role]
        if found:
            yield _values(checkpoints, role, found)


def _structure(checkpoints: Checkpoints, differences: Sequence[StructureDifference]) -> Finding:
    first = differences[0]
    vote = vote_on(first.sides)
    more = f"; {len(differences)} entries differ in structure" if len(differences) > 1 else ""
    doubt = tie_note(tied=vote.tied)
    return RULE.finding(
        f"{structure_sentence(first)}{more}{doubt}",
        ranks=vote.minority, details=_files(checkpoints, first.sides), remedy=OTHER_MODEL, tensor=first.name,
        aspect=first.aspect, tensors=[difference.name for difference in differences],
    )  # fmt: skip


def _values(checkpoints: Checkpoints, role: Role, differences: Sequence[ValueDifference]) -> Finding:
    first = differences[0]
    message = value_sentence(differences, f"of {checkpoints.compared.get(role, 0)} {CALLED[role]}")
    statistics, vote = role == "buffer", vote_on(first.sides)
    remedy = STATISTICS if statistics else WITHOUT_MAJORITY if vote.tied else None
    return RULE.finding(
        message, ranks=vote.minority, details=_files(checkpoints, first.sides),
        severity=Severity.INFO if statistics else None, remedy=remedy, tensor=first.name,
        index=list(first.element.index) if first.element else None, kind=first.kind, extent=first.extent,
        difference=first.element.difference if first.element else None,
        values={",".join(map(str, side.ranks)): side.says for side in first.sides},
        tensors=[difference.name for difference in differences],
    )  # fmt: skip


def _files(checkpoints: Checkpoints, sides: Sequence[Side]) -> tuple[str, ...]:
    """Which file that of each rank of the minority is."""
    minority = vote_on(sides).minority
    listed = [f"rank {rank} is {file}" for rank, file in checkpoints.files if rank in minority]
    more = [f"and {len(listed) - FILES_SHOWN} more files"] if len(listed) > FILES_SHOWN else []
    return (*listed[:FILES_SHOWN], *more)

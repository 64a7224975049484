"""The reference job ended with other weights on some ranks: DDP or the transport below it does not do its work here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ddpdoctor.evidence.training import TrainingRun
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP524",
    name="reference-weights-differ",
    summary="the reference job of ddpdoctor train ends with different weights on some ranks",
    severity=Severity.FAIL,
    remedy="the job itself is correct, so suspect the hardware: run `ddpdoctor env` on every rank, test memory and GPU "
    "of the ranks in the minority, and find the first step at which they diverge with `ddpdoctor verify-sync`",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    """One finding with the ranks of the minority, or with all of them where there is none."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for rank, digest in enumerate(run.weights):
        holders[digest].append(rank)
    if len(holders) > 1:
        groups = sorted(holders.items(), key=lambda item: -len(item[1]))
        majority = len(groups[0][1]) > len(groups[1][1])
        minority = [rank for _, ranks in groups[1 if majority else 0 :] for rank in ranks]
        found = ", ".join(f"{digest} on {group_ranks(ranks)}" for digest, ranks in groups)
        which = tie_note(tied=not majority)
        yield RULE.finding(f"the final weights have {len(groups)} digests: {found}{which}", ranks=minority)

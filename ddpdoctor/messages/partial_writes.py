"""The finding about a write into weights, or settings, that some ranks leave out."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.partial_writes import PartialWrite
from ddpdoctor.evidence.training_code import Call
from ddpdoctor.messages.code_findings import alike, code_finding, guarded, of_this_rank, out_of
from ddpdoctor.model import Finding, Rule


def finding(rule: Rule, write: Call, found: PartialWrite, what: str, then: str) -> Finding:
    """The finding of `rule` that `write` does `what` under the test that was `found`, and `then` the others part."""
    by_value = not found.guard.by_rank
    own = f", which each rank decides by its own {of_this_rank(found.because)}" if by_value else ""
    return code_finding(
        rule,
        f"`{write.text}` {what} {guarded(found.guard)}{own}: {then}",
        found.site.place,
        *([write.place] if found.site is not write else []),
        because=found.because,
        remedy=alike(found.guard, found.because) if by_value else out_of(found.guard, found.site.place.line),
    )

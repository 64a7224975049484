"""DDP221: a collective ended, and the values it left are not what the inputs make them."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP221",
    name="collective-result-wrong",
    summary="a collective returns wrong values",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor net` or `ddpdoctor smoke` computes a known sum and gets another one",
    remedy="do not train on these ranks: run the same benchmark on each pair of hosts to find the one that corrupts "
    "data, test its memory, GPU and network card, and look for code that replaces torch.distributed's functions",
)
SHOWN = 4


def check(bench: CollectiveBench) -> Iterator[Finding]:
    """One finding for all counts and ranks whose values differ from the exact ones."""
    if not bench.wrong:
        return
    first = bench.wrong[0]
    ranks = sorted({each.rank for each in bench.wrong})
    counts = sorted({each.count for each in bench.wrong})
    kind = f"{bench.collective} of {bench.dtype}" + (f" ({bench.op})" if bench.op else "")
    yield RULE.finding(
        f"{kind} returns wrong values on {group_ranks(ranks)} at {len(counts)} of {len(bench.checked)} counts, first "
        f"{first.got} instead of {first.expected} in element {first.index} of {first.received}",
        ranks=ranks,
        hosts=[bench.ranks[rank].host for rank in ranks],
        details=[
            f"rank {each.rank}, count {each.count}: {each.elements} of {each.received} elements, "
            f"first [{each.index}] = {each.got} instead of {each.expected}"
            for each in bench.wrong[:SHOWN]
        ],
        elements=sum(each.elements for each in bench.wrong),
        counts=counts,
        checked=len(bench.checked),
    )

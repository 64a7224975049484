"""DDP's constructor read a number of parameters from a peer that no model has: the exchange failed, not the model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP416",
    name="parameter-exchange-failed",
    summary="the exchange of parameter counts failed; the models need not differ",
    severity=Severity.FAIL,
    shown_by="the inconsistent number of parameters is 0 or absurdly large: the exchange itself failed",
    remedy="do not look for a difference between the models: look at the launch (two ranks on one GPU, a wrong number of "
    "processes, ranks that disagree about WORLD_SIZE) and at the other ranks' first error; `ddpdoctor net` tries the links",
    explains=("DDP307", "DDP318", "DDP401", "DDP406", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"inconsistent (?:0|\d{7,}) params",
        ),
    ),
)

_COUNTS = re.compile(
    r"Rank (?P<one>\d{1,18}) has (?P<has>\d{1,18}) params, while rank "
    r"(?P<other>\d{1,18}) has inconsistent (?P<differs>\d{1,20})(?!\d)"
)


def check(failures: Failures) -> Iterator[Finding]:
    """The peer whose answer cannot be true, and the answer."""
    found = failures.of("DDP416")
    counts = next((match for failure in found if (match := _COUNTS.search(failure.text))), None)
    if counts is not None:
        receiver = who(found) if unique_ranks(found) else f"rank {counts['one']}"
        yield RULE.finding(
            f"{receiver} received the impossible parameter count {counts['differs']} from rank {counts['other']} (its own: "
            f"{counts['has']}): the exchange was corrupted",
            ranks=(int(counts["other"]),),
            where=[where for failure in found for where in failure.where("wraps its model here")],
            has=int(counts["has"]),
            read=int(counts["differs"]),
        )

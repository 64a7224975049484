"""Parameters that the loss of a step did not depend on: their gradients never came, so the reduction never ended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failures import Failure, Failures, unique_ranks, who
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity


def _is_no_static_graph(text: str) -> bool:
    return "training graph has changed" not in text


RULE = Rule(
    code="DDP404",
    name="unused-parameters",
    summary="parameters took no part in the loss, and DDP waited for their gradients",
    severity=Severity.FAIL,
    shown_by="the message lists parameters without a gradient; find_unused_parameters=True makes it go away",
    remedy="let every parameter take part in every loss, or freeze it before wrapping; where it depends on the data, wrap with "
    "find_unused_parameters=True. TORCH_DISTRIBUTED_DEBUG=INFO adds the names",
    explains=("DDP306", "DDP307", "DDP314", "DDP318", "DDP401", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"Expected to have finished reduction in the prior iteration before starting a new one|parameters that "
            r"were not used in producing (?:the )?loss|did not receive grad for rank|participate in calculating loss",
            applies=_is_no_static_graph,
        ),
    ),
)
SHOWN = 8

_NAMES = re.compile(r"Parameters which did not receive grad for rank \d+: (?P<names>[^\n]+)")
_INDICES = re.compile(r"Parameter indices which did not receive grad for rank \d+: (?P<indices>[\d ]+)")


def check(failures: Failures) -> Iterator[Finding]:
    """The ranks, and the parameters that had no gradient: by name where the message has them, else by index."""
    found = failures.of("DDP404")
    if not found:
        return
    by_parameters: dict[tuple[str, ...], list[Failure]] = {}
    for failure in found:
        by_parameters.setdefault(_parameters(failure.text), []).append(failure)
    ranks = unique_ranks(found)
    said = " and ".join(
        f"{who(group)}: {_spoken(parameters)} received no gradient" for parameters, group in by_parameters.items()
    )
    yield RULE.finding(
        f"{said} in the previous step",
        ranks=ranks,
        where=[where for failure in found for where in failure.where("begins the next step here")],
        parameters={"+".join(map(str, unique_ranks(group))): [*names] for names, group in by_parameters.items()},
    )


def _parameters(words: str) -> tuple[str, ...]:
    if found := _NAMES.search(words):
        return tuple(name.strip() for name in found["names"].split(",") if name.strip())
    if found := _INDICES.search(words):
        return tuple(f"#{index}" for index in found["indices"].split())
    return ()


def _spoken(parameters: tuple[str, ...]) -> str:
    if not parameters:
        return "some parameters"
    shown = ", ".join(parameters[:SHOWN]) + (f" and {len(parameters) - SHOWN} more" if len(parameters) > SHOWN else "")
    return f"parameter{'s' if len(parameters) > 1 else ''} {shown}"

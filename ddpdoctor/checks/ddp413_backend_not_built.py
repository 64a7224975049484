"""The job asked for a backend that this build of torch does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failures import Failures, unique_ranks
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP413",
    name="backend-not-built",
    summary="the job asked for a backend that this build of torch does not have",
    severity=Severity.FAIL,
    shown_by="the message names the backend; `python -c 'import torch.distributed as d; print(d.is_nccl_available())'`",
    remedy="install the build of torch for your GPUs (a wheel without `+cpu`), or ask for gloo: init_process_group('gloo')",
    explains=("DDP318", "DDP401", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"Distributed package doesn't have (?:\w+) built in",
        ),
    ),
)

_BACKEND = re.compile(r"doesn't have (?P<backend>\w+) built in")


def check(failures: Failures) -> Iterator[Finding]:
    """The backend, and the ranks that asked for it."""
    found = failures.of("DDP413")
    if not found:
        return
    named = _BACKEND.search(found[0].text)
    backend = named["backend"] if named is not None else "the backend"
    ranks = unique_ranks(found)
    who = f" on {group_ranks(ranks)}" if ranks else ""
    yield RULE.finding(
        f"torch was built without {backend}, which the job asked for{who}",
        ranks=ranks,
        where=[where for failure in found[:1] for where in failure.where()],
        backend=backend,
    )

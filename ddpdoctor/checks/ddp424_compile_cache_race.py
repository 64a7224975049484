"""Ranks compile into one cache directory, and one removes or replaces what another one is about to read."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP424",
    name="compile-cache-race",
    summary="a file in the cache of torch.compile or Triton was missing or stale: ranks share the directory",
    severity=Severity.FAIL,
    shown_by="the path of the message is below a torchinductor or Triton cache that several ranks or jobs share",
    remedy="give each rank a cache of its own on a local disk before torch is imported: "
    "TORCHINDUCTOR_CACHE_DIR=/tmp/inductor-$LOCAL_RANK "
    "and TRITON_CACHE_DIR=/tmp/triton-$LOCAL_RANK; delete the cache that is there",
    explains=("DDP401", "DDP422"),
    errors=(
        ErrorPattern(
            regex=r"(?:\[Errno (?:2|16|17|39|116)\]|FileNotFoundError|Stale file handle|OSError).{0,120}?"
            r"'(?P<path>[^']*(?:torchinductor|inductor_cache|\.triton|triton_cache|/triton/)[^']*)'",
            sentence="{who} met a missing or stale file in a compile cache: {words}",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The rank that met it, and the file."""
    yield from known_errors(RULE, failures, note="compiles here")

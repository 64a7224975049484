"""The memory of the container or host is nearly used up, or the host swaps."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import Memory
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP187",
    name="memory-nearly-exhausted",
    summary="memory is nearly exhausted, or the host swaps",
    severity=Severity.WARN,
    remedy="find the processes that use it (`ps aux --sort=-rss | head`), end those of earlier jobs, or raise the "
    "container's limit; when memory runs out, the kernel kills a rank and its peers appear to hang",
    background=True,
)

NEARLY = 0.9  # of the limit, without file cache that can be dropped
SWAPS = 0.1  # of the memory; a little swap holds what was never used again


def check(memory: PerRank[Memory]) -> Iterator[Finding]:
    """At most one finding for each host: the container's limit first, then the host's memory, then swap."""
    for each in memory.hosts():
        host, seen = each.host, each.value
        if seen.limit_bytes and seen.limit_used_bytes and seen.limit_used_bytes > NEARLY * seen.limit_bytes:
            yield _full(f"the container on {host}", host, seen.limit_used_bytes, seen.limit_bytes)
        elif seen.used_bytes > NEARLY * seen.total_bytes > 0:
            yield _full(host, host, seen.used_bytes, seen.total_bytes)
        elif seen.swap_used_bytes > SWAPS * seen.total_bytes:
            yield RULE.finding(
                f"{host} has swapped out {seen.swap_used_bytes / 2**30:.1f} GiB; its memory is "
                f"{seen.total_bytes / 2**30:.1f} GiB",
                hosts=(host,),
                swap_used_bytes=seen.swap_used_bytes,
                total_bytes=seen.total_bytes,
            )


def _full(what: str, host: str, used: int, of: int) -> Finding:
    return RULE.finding(
        f"{what} uses {used / 2**30:.1f} of {of / 2**30:.1f} GiB ({used / of:.0%})",
        hosts=(host,),
        used_bytes=used,
        limit_bytes=of,
    )

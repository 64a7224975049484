"""Hosts run different operating systems, kernels or C libraries.

A host that was installed differently behaves differently.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.rank_differences import difference
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Host
from ddpdoctor.messages.majority import values_by_rank
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP113",
    name="operating-systems-differ",
    summary="hosts run different operating systems, kernels or C libraries",
    severity=Severity.WARN,
    remedy="give the hosts in the minority the image and kernel of the others",
    background=True,
)


def check(hosts: PerRank[Host]) -> Iterator[Finding]:
    """One finding for each of distribution, kernel and C library that differs between hosts."""
    for name, values in (
        ("the operating system", {entry.rank: entry.value.os for entry in hosts}),
        ("the kernel", {entry.rank: entry.value.kernel for entry in hosts}),
        ("the C library", {entry.rank: entry.value.libc or "unknown" for entry in hosts}),
    ):
        found = difference(values.items())
        if found is not None:
            minority = [entry.host for entry in hosts if entry.rank in found.minority]
            yield RULE.finding(
                f"{name} is {values_by_rank(found)}", ranks=found.minority, hosts=minority, values=found.values
            )

"""A process may lock too little memory for RDMA."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import Limits
from ddpdoctor.evidence.network import Infiniband
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP183",
    name="locked-memory-limited",
    summary="the locked-memory limit (memlock) is too low for RDMA",
    severity=Severity.WARN,
    shown_by="`ulimit -l` in the job's own shell is not unlimited",
    remedy="start the container with `--ulimit memlock=-1`, or set `* - memlock unlimited` in /etc/security/limits.conf and"
    " `LimitMEMLOCK=infinity` for the service that starts jobs",
    explains=(
        "DDP418",
        "DDP408",
        "DDP401",
    ),
    background=True,
    errors=(
        ErrorPattern(
            regex=r"Call to (?P<call>ibv_\w+) failed with error Cannot allocate memory",
            sentence="InfiniBand got no memory in {call}{on}: the limit on locked memory is the usual reason",
        ),
    ),
)

SMALLEST_BYTES = 64 << 20  # below this, NCCL cannot register its buffers for one connection to each of a few peers


def check(limits: PerRank[Limits], infiniband: PerRank[Infiniband]) -> Iterator[Finding]:
    """One finding for each host with InfiniBand or RoCE on which a rank's RLIMIT_MEMLOCK is finite."""
    with_rdma = {entry.host for entry in infiniband if entry.value.ports}
    if not with_rdma:
        raise SkipCheck("no InfiniBand or RoCE adapter on these hosts: locked memory does not matter")
    for each in limits.hosts():
        limit = each.value.locked_memory_bytes
        if each.host in with_rdma and isinstance(limit, int):
            yield RULE.finding(
                f"a process on {each.host} may lock {limit >> 10} KiB of memory, but RDMA must lock its buffers",
                hosts=(each.host,),
                severity=Severity.FAIL if limit < SMALLEST_BYTES else Severity.WARN,
                limit_bytes=limit,
            )

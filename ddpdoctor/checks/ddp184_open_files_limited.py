"""A process may open too few files for the sockets and loader workers of a job."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import Limits
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP184",
    name="open-files-limited",
    summary="the limit on open files is too low for sockets and data loader workers",
    severity=Severity.WARN,
    remedy="run `ulimit -n 65536` before the job; to make it permanent, set `* - nofile 65536` in "
    "/etc/security/limits.conf, `LimitNOFILE=` of the service, or `--ulimit nofile=65536` of the container",
    background=True,
)

FEWEST = 1024  # the kernel's default; loaders that share tensors by file descriptor pass it within an epoch
ADVISED = 8192  # NCCL's guide: about 230 a rank at 144 ranks, plus those of the loader


def check(limits: PerRank[Limits]) -> Iterator[Finding]:
    """One finding for each host on which a process may open fewer than 8192 files."""
    hosts = limits.hosts()
    if all(each.value.open_files is None for each in hosts):
        raise SkipCheck("the limit on open files could not be read")
    for each in hosts:
        limit = each.value.open_files
        if isinstance(limit, int) and limit < ADVISED:
            yield RULE.finding(
                f"a process on {each.host} may open {limit} files; {ADVISED} are recommended",
                hosts=(each.host,),
                severity=Severity.FAIL if limit < FEWEST else Severity.WARN,
                limit=limit,
            )

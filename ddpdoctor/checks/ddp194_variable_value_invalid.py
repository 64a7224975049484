"""A variable holds a value that the library refuses, or takes for something else."""

import re
from collections.abc import Iterator

from ddpdoctor.analysis.launch.group_by_value import who_sets
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Finding, Rule, Severity
from ddpdoctor.whole_numbers import whole_number

RULE = Rule(
    code="DDP194",
    name="variable-value-invalid",
    summary="a variable holds a value that its library does not accept",
    severity=Severity.FAIL,
    remedy="set it to an accepted value",
    background=True,
)

ACCEPTED = {  # name: what matches, and the same in words
    "TORCH_DISTRIBUTED_DEBUG": (r"(?i)OFF|INFO|DETAIL", "OFF, INFO or DETAIL"),
    "TORCH_CPP_LOG_LEVEL": (r"INFO|WARNING|ERROR|FATAL|[0-3]", "INFO, WARNING, ERROR or FATAL"),
    "OMP_NUM_THREADS": (r"\s*[1-9]\d*(\s*,\s*[1-9]\d*)*\s*", "a number from 1"),
    "MASTER_PORT": (r"\d{1,5}", "a port from 0 to 65535"),
    "RANK": (r"\d+", "a number from 0"),
    "WORLD_SIZE": (r"[1-9]\d*", "a number from 1"),
    "LOCAL_RANK": (r"\d+", "a number from 0"),
    "TORCH_FR_BUFFER_SIZE": (r"\d+", "a number of entries"),
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": (r"[0-3]", "a number from 0 to 3"),
    "NCCL_DEBUG": (r"(?i)VERSION|WARN|INFO|ABORT|TRACE|NONE|ATTN", "VERSION, WARN, INFO or TRACE"),
}
MAX_SOCKETS = 64  # NCCL's guide: NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD


def check(environment: PerRank[Environment]) -> Iterator[Finding]:
    """One finding for each variable with such a value, and one where NCCL's socket numbers multiply beyond 64."""
    for name, setters in who_sets(environment, ACCEPTED.keys()):
        pattern, words = ACCEPTED[name]
        wrong = [value for value in setters.values if not re.fullmatch(pattern, value)]
        if wrong:
            yield RULE.finding(
                f"{name}={wrong[0]!r} is set{setters.suffix}; accepted: {words}",
                ranks=setters.ranks,
                remedy=f"set {name} to {words}, or leave it unset",
                variable=name,
                value=wrong[0],
            )
    for host in environment.hosts():
        threads, sockets = (
            whole_number(host.value.variables.get(name, "1")) or 1
            for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
        )
        if threads * sockets > MAX_SOCKETS:
            yield RULE.finding(
                f"NCCL_SOCKET_NTHREADS={threads} times NCCL_NSOCKS_PERTHREAD={sockets} is {threads * sockets} sockets on "
                f"{host.host}; NCCL allows at most {MAX_SOCKETS}",
                hosts=(host.host,),
                sockets=threads * sockets,
            )

"""An environment variable that ranks must agree on differs between them.

NCCL, gloo and torch read the environment of each rank on its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.rank_differences import ONE_RANK, difference
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.messages.majority import values_by_rank
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP118",
    name="variables-differ",
    summary="an environment variable that ranks must agree on differs between them",
    severity=Severity.FAIL,
    remedy="set the variable for every rank in one place: `torchrun` and `srun --export=ALL` pass on the environment "
    "that they were started with",
    background=True,
)

MUST_AGREE = re.compile(r"NCCL_(ALGO|PROTO|IB_DISABLE|P2P_\w+|SHM_\w+|NET\w*)")  # NCCL's RAS compares these too
SHOULD_AGREE = re.compile(
    r"(NCCL|TORCH|GLOO|OMP|MKL)_\w+|PYTORCH_\w*ALLOC_CONF|CUDA_(LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS|DEVICE_ORDER|MODULE_LOADING)"
)
# names of files, and of devices that hosts call differently
MAY_DIFFER = re.compile(
    r"\w{1,100}_(FILE|DIR|PATH|TEMP_FILE|LOG_LEVEL)|NCCL_DEBUG\w*|NCCL_(TOPO|GRAPH|CONF)_\w+|TORCH_(HOME|LOGS|TRACE|CUDA_ARCH_LIST)"
    r"|(NCCL|GLOO)_SOCKET_IFNAME|NCCL_IB_HCA|NCCL_COMM_ID"
)


def check(environments: PerRank[Environment]) -> Iterator[Finding]:
    """One finding per variable: fail where NCCL ranks would speak different protocols, else a warning."""
    if len(environments) < 2:
        raise SkipCheck(ONE_RANK)
    names = {name for entry in environments for name in entry.value.variables}
    for name in sorted(names):
        grave = bool(MUST_AGREE.fullmatch(name))
        if not grave and (MAY_DIFFER.fullmatch(name) or not SHOULD_AGREE.fullmatch(name)):
            continue
        found = difference((entry.rank, entry.value.variables.get(name, "unset")) for entry in environments)
        if found is not None:
            yield RULE.finding(
                f"{name} is {values_by_rank(found)}",
                severity=Severity.FAIL if grave else Severity.WARN,
                ranks=found.minority,
                variable=name,
                values=found.values,
            )

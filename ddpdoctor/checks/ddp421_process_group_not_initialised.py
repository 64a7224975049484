"""Something used torch.distributed before `init_process_group`, or in a process that no launcher started."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP421",
    name="process-group-not-initialised",
    summary="torch.distributed was used before init_process_group",
    severity=Severity.FAIL,
    shown_by="the line is above init_process_group, or the program was started as plain `python`",
    remedy="start the script with `torchrun --nproc-per-node N SCRIPT` (N=1 for one process) and call init_process_group "
    "first, and destroy_process_group last; to run "
    "it as one plain process use BatchNorm in place of SyncBatchNorm, and guard collectives with `dist.is_initialized()`",
    explains=("DDP401",),
    errors=(
        ErrorPattern(
            regex=r"Default process group (?:has not been|is not) initialized|Process group (?:has not been|is not) initialized|"
            r"process group is not initialized|The given group does not exist|Invalid process group specified",
            sentence="{who} used torch.distributed before init_process_group, or after destroy_process_group",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The ranks, and the user's line that made the call."""
    yield from known_errors(RULE, failures, note="uses the process group here")

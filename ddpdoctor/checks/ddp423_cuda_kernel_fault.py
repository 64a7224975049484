"""A kernel on a GPU read or wrote where it must not, or an assertion in it failed."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP423",
    name="cuda-kernel-fault",
    summary="a kernel on a GPU failed: an illegal access, or an assertion",
    severity=Severity.FAIL,
    shown_by="one rank printed it first: run with CUDA_LAUNCH_BLOCKING=1, the other ranks only follow",
    remedy="run it again with CUDA_LAUNCH_BLOCKING=1, which gives the Python line of the kernel that failed, or under "
    "`compute-sanitizer`; most often an index is out of range (labels, token ids, an embedding that is too small)",
    explains=("DDP401", "DDP403", "DDP407", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"(?P<fault>illegal memory access|device-side assert(?!ions)|misaligned address|unspecified launch failure|"
            r"illegal instruction was encountered|invalid program counter|hardware stack error|CUDA_ERROR_ILLEGAL_ADDRESS|"
            r"CUDA_EXCEPTION_\d+|HSA_STATUS_ERROR_(?:EXCEPTION|ILLEGAL_INSTRUCTION|MEMORY_APERTURE_VIOLATION|MEMORY_FAULT)|"
            r"Memory access fault by GPU)"
        ),
        ErrorPattern(
            regex=r"(?P<fault>HW Exception by GPU node-\d{1,4}).{0,80}reason ?: ?(?P<why>GPU Hang)",
            remedy="the driver found this GPU hanging and reset it: read `dmesg | grep amdgpu`, update ROCm and the firmware, "
            "and run the job without this GPU; where it is always the same one, have it replaced",
        ),
        ErrorPattern(
            regex=r"block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] (?P<assertion>Assertion [^\n]{1,200}? failed)"
        ),
    ),
)
SHOWN = 3


def check(failures: Failures) -> Iterator[Finding]:
    """The first rank by time, and what its kernel did; the faults of others may be consequences."""
    found = failures.of(RULE.code)
    if not found:
        return
    first = found[0]
    assert first.known is not None
    same = [failure for failure in found if failure.order == first.order] if first.rank is not None else [first]
    later = [failure for failure in found if failure not in same and failure.rank is not None]
    fault = _fault(first)
    yield RULE.finding(
        f"a kernel failed on the GPU of {who(same)}: {fault}",
        ranks=unique_ranks(same),
        where=[where for failure in same for where in failure.where("noticed here")],
        details=[
            *_asserted(found, failures),
            *(f"later on {failure.who}: {_fault(failure)}" for failure in later[:SHOWN]),
        ],
        remedy=first.known.pattern.remedy or None,
        shown_by_job=True,
        fault=fault,
    )


def _fault(failure: Failure) -> str:
    groups = failure.known.groups if failure.known is not None else {}
    fault, why = groups.get("fault") or groups.get("assertion", ""), groups.get("why")
    return f"{fault} ({why})" if why else fault


def _asserted(found: tuple[Failure, ...], failures: Failures) -> Iterator[str]:
    """`the kernel's message: Loss.cu:250: ... Assertion `t < n_classes` failed.`, which a GPU prints beside the exception."""
    output = [line for failure in found for line in failure.exit.tail]
    output += failures.log.said if failures.log is not None else ()
    yield from [f"the kernel's message: {line.strip()}" for line in output if "Assertion `" in line][:1]

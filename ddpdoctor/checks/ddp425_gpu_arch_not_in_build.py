"""torch, or an extension, was built without code for this GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP425",
    name="gpu-arch-not-in-build",
    summary="the build of torch or of an extension has no code for this GPU",
    severity=Severity.FAIL,
    shown_by="`python -c 'import torch; print(torch.cuda.get_arch_list())'` does not list the GPU's architecture",
    remedy="install a build for this GPU (`python -c 'import torch; print(torch.cuda.get_arch_list())'` lists what a "
    "build has), and build extensions again with TORCH_CUDA_ARCH_LIST set to the GPU's compute capability",
    explains=("DDP401", "DDP418", "DDP423"),
    errors=(
        ErrorPattern(
            regex=r"with CUDA capability (?P<arch>sm_\w+) is not compatible with the current PyTorch",
            sentence="this build of torch has no code for GPUs of {arch}{on}",
        ),
        ErrorPattern(
            regex=r"no kernel image is available for execution|CUDA_ERROR_NO_BINARY_FOR_GPU|HIP error: invalid device function",
            sentence="this build of torch or of an extension has no code for the GPU{on}: no kernel image",
        ),
        ErrorPattern(
            regex=r"invalid value for --gpu-architecture|Value '(?P<arch>sm_\w+)' is not defined for option 'gpu-name'|"
            r"Unsupported gpu architecture",
            sentence="the compiler does not know the architecture of the GPU{on}: {words}",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The ranks, and the architecture where the text names it."""
    yield from known_errors(RULE, failures)

"""A GPU had no memory left for an allocation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP407",
    name="gpu-out-of-memory",
    summary="a GPU ran out of memory on some ranks",
    severity=Severity.FAIL,
    shown_by="the rank's own text says `out of memory` of the GPU; `nvidia-smi` shows who uses it",
    remedy="use a smaller batch or activation checkpointing. Where one rank alone ran out: other processes on its GPU "
    "(`nvidia-smi`), tensors that all ranks load to cuda:0 (torch.load without map_location), longer samples on that rank",
    explains=(
        "DDP305",
        "DDP306",
        "DDP307",
        "DDP314",
        "DDP318",
        "DDP401",
        "DDP403",
        "DDP408",
        "DDP418",
    ),
    errors=(
        ErrorPattern(
            regex=r"(?:CUDA|HIP|XPU|NPU) out of memory|OutOfMemoryError(?!: Task was killed)|(?:CUDA|HIP) error: out of "
            r"memory|Cuda failure (?:\d+ )?'out of memory'|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|"
            r"(?:ZE|UR)_RESULT_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)",
        ),
    ),
)

_TRIED = re.compile(r"Tried to allocate (?P<size>[\d.]+ [KMGT]i?B)")
_GPU = re.compile(
    r"GPU (?P<gpu>\d{1,18}) has a total capacity of (?P<total>[\d.]+ \wi?B) of which (?P<free>[\d.]+ \w*i?B|\d+ bytes) is free"
)
_OLD = re.compile(
    r"GPU (?P<gpu>\d{1,18}); (?P<total>[\d.]+ \wi?B) total capacity; [^;]*; (?P<free>[\d.]+ (?:\wi?B|bytes)) free"
)


def check(failures: Failures) -> Iterator[Finding]:
    """The ranks, what they asked for, and what was free."""
    found = failures.of("DDP407")
    if not found:
        return
    ranks, words = unique_ranks(found), found[0].text.replace("\n", "")  # a terminal may have broken the line
    tried, gpu = _TRIED.search(words), _GPU.search(words) or _OLD.search(words)
    asked = f" asking for {tried['size']}" if tried is not None else ""
    left = f": {gpu['free']} of {gpu['total']} was free on GPU {gpu['gpu']}" if gpu is not None else ""
    yield RULE.finding(
        f"{who(found)} ran out of GPU memory{asked}{left}",
        ranks=ranks,
        where=[where for failure in found for where in failure.where("allocates here")],
        requested=tried["size"] if tried is not None else None,
        free=gpu["free"] if gpu is not None else None,
        total=gpu["total"] if gpu is not None else None,
    )

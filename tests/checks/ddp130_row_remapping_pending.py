"""DDP130 row-remapping-pending."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus, RemappedRows
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


def rows(*, pending: bool = False, failed: bool = False) -> RemappedRows:
    return RemappedRows(correctable=1, uncorrectable=2, pending=pending, failed=failed)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=3, remapped_rows=rows(pending=True)))),
        says="GPU 3 of host-a needs a reset to remap a broken memory row (1 correctable and 2 uncorrectable so far)",
        hosts=("host-a",),
        measured={"gpu": 3, "pending": True, "failed": False},
    ),
    Sick(
        evidence=one_host(gpus(Gpu(index=3, remapped_rows=rows(failed=True)))),
        says="GPU 3 of host-a could not remap a broken memory row (1 correctable and 2 uncorrectable so far)",
        hosts=("host-a",),
        measured={"gpu": 3, "pending": False, "failed": True},
    ),
)
HEALTHY = (one_host(gpus(Gpu(index=3, remapped_rows=rows()))),)

"""DDP108 several-nccl-libraries."""

from __future__ import annotations

from ddpdoctor.evidence.torch_build import NcclLibraries, NcclLibrary
from tests.checks import Sick, one_host

OWN = NcclLibrary(path="/venv/nvidia/nccl/lib/libnccl.so.2", version="2.29.7", via="loaded by torch")
SICK = (
    Sick(
        evidence=one_host(
            NcclLibraries(
                found=(OWN, NcclLibrary(path="/opt/hpcx/libnccl.so.2", version="2.21.5", via="LD_LIBRARY_PATH"))
            )
        ),
        says="host-a has 2 NCCL libraries that a process can load: 2.29.7 (/venv/nvidia/nccl/lib/libnccl.so.2, loaded by torch), "
        "2.21.5 (/opt/hpcx/libnccl.so.2, LD_LIBRARY_PATH)",
        hosts=("host-a",),
        measured={"paths": ["/venv/nvidia/nccl/lib/libnccl.so.2", "/opt/hpcx/libnccl.so.2"]},
    ),
)
HEALTHY = (
    one_host(NcclLibraries(found=(OWN,))),
    one_host(NcclLibraries(found=(OWN, NcclLibrary(path="/usr/lib/libnccl.so.2", version="2.21.5", via="ldconfig")))),
)

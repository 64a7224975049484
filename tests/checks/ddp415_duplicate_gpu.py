"""DDP415 duplicate-gpu."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.launch import Launch
from tests.checks import Sick, ranks
from tests.rank_ends import FINE, ended, raised

BOARD = Gpus(
    driver="580.65.06", gpus=tuple(Gpu(index=index, pci_bus_id=f"00000000:{index}B:00.0") for index in range(2))
)


def two_ranks(*visible: str | None) -> Evidence:
    return ranks(
        *(
            (
                Launch(launcher="torchrun", rank=rank, world_size=2, local_rank=rank, local_world_size=2),
                Environment(variables={} if value is None else {"CUDA_VISIBLE_DEVICES": value}),
                BOARD,
            )
            for rank, value in enumerate(visible)
        ),
        per_host=2,
    )


WORDS = "ncclInvalidUsage\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"

SICK = (
    Sick(
        evidence=ended(raised(WORDS, "DistBackendError"), raised(WORDS, "DistBackendError")),
        says="ranks 0-1 use the same GPU, the one with PCI bus id 1000",
        ranks=(0, 1),
        measured={"pci_bus_id": "1000"},
    ),
    Sick(
        evidence=two_ranks("0", "0"),
        says="ranks 0-1 on host-a would all use the GPU at 00000000:0B:00.0",
        ranks=(0, 1),
        hosts=("host-a",),
        measured={"pci_bus_id": "00000000:0B:00.0"},
    ),
)
HEALTHY = (
    ended(FINE, FINE),
    two_ranks("0", "1"),
    two_ranks(None, None),
    two_ranks("0,1", "0,1"),
    two_ranks("1,0", "1,0"),
)

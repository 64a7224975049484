"""Variables that torch and NCCL do not know, and those that they do."""

from ddpdoctor.evidence.variables import KnownNames, NameLookup
from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.launch_files import script

RUN = "torchrun --standalone --nproc-per-node 8 train.py\n"
NAMES = KnownNames(
    read=("libtorch_cpu.so",),
    judged=(
        NameLookup(name="NCCL_SOCKET_IFNAMES", known=False, nearest="NCCL_SOCKET_IFNAME"),
        NameLookup(name="NCCL_SOCKET_IFNAME", known=True),
        NameLookup(name="NCCL_OF_OUR_FORK", known=False),
        NameLookup(name="NCCL_ASYNC_ERROR_HANDLING", known=True),
    ),
    renamed={"NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
)

SICK = (
    Sick(
        evidence=script(f"export NCCL_SOCKET_IFNAMES=eth0\n{RUN}", names=NAMES),
        says="NCCL_SOCKET_IFNAMES is set, but torch, gloo and NCCL do not read it; did you mean NCCL_SOCKET_IFNAME?",
        where=("job.sh:1",),
        measured={"variable": "NCCL_SOCKET_IFNAMES", "nearest": "NCCL_SOCKET_IFNAME"},
    ),
    Sick(
        evidence=script(f"export NCCL_ASYNC_ERROR_HANDLING=1\n{RUN}", names=NAMES),
        says="NCCL_ASYNC_ERROR_HANDLING is the old name of TORCH_NCCL_ASYNC_ERROR_HANDLING, and still read",
        where=("job.sh:1",),
        measured={"variable": "NCCL_ASYNC_ERROR_HANDLING", "nearest": "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
        severity=Severity.INFO,
    ),
)
HEALTHY = (
    script(f"export NCCL_SOCKET_IFNAME=eth0 NCCL_OF_OUR_FORK=1\n{RUN}", names=NAMES),
    script(RUN),
)

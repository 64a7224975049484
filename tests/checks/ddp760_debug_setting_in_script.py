"""Debug settings in scripts and manifests, and the same behind a switch."""

from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.launch_files import manifest, script

MPI = "services:\n  train:\n    ipc: host\n    command:\n      - mpirun\n      - -x\n      - {}\n      - ./train\n"
RUN = "torchrun --standalone --nproc-per-node 8 train.py\n"

SICK = (
    Sick(
        evidence=script(f"export CUDA_LAUNCH_BLOCKING=1\n{RUN}"),
        says="CUDA_LAUNCH_BLOCKING=1 is set for every run: every kernel launch blocks until the kernel has finished",
        where=("job.sh:1",),
        measured={"variable": "CUDA_LAUNCH_BLOCKING"},
        severity=Severity.WARN,
    ),
    Sick(
        evidence=script(f"NCCL_IB_DISABLE=1 {RUN}"),
        says="NCCL_IB_DISABLE=1 is set for every run: NCCL uses TCP instead of InfiniBand and RoCE",
        where=("job.sh:1",),
        measured={"variable": "NCCL_IB_DISABLE"},
    ),
    Sick(
        evidence=manifest(
            "services:\n  train:\n    ipc: host\n    command: torchrun --standalone --nproc-per-node 2 train.py\n"
            "    environment:\n      - TORCH_DISTRIBUTED_DEBUG=DETAIL\n"
        ),
        says="TORCH_DISTRIBUTED_DEBUG=DETAIL is set for every run: every collective is first compared across all ranks, "
        "which takes ten times as long",
        where=("job.yaml:6",),
        measured={"variable": "TORCH_DISTRIBUTED_DEBUG"},
        severity=Severity.WARN,
    ),
    Sick(
        evidence=manifest(MPI.format("CUDA_LAUNCH_BLOCKING=1")),
        says="CUDA_LAUNCH_BLOCKING=1 is set for every run: every kernel launch blocks until the kernel has finished",
        where=("job.yaml:7",),
        measured={"variable": "CUDA_LAUNCH_BLOCKING"},
        severity=Severity.WARN,
    ),
)
HEALTHY = (
    manifest(MPI.format("NCCL_DEBUG=WARN")),
    script(f"export CUDA_LAUNCH_BLOCKING=0 NCCL_DEBUG=WARN TORCH_DISTRIBUTED_DEBUG=INFO\n{RUN}"),
    script(f'[ -n "${{DEBUG:-}}" ] && export CUDA_LAUNCH_BLOCKING=1\n{RUN}'),
    script(
        f'export NCCL_IB_DISABLE=${{NO_IB:-0}}\nif [ "$1" = debug ]; then export TORCH_DISTRIBUTED_DEBUG=DETAIL; fi\n{RUN}'
    ),
)

"""The environment variables that bear on a distributed job, from an allow-list; tokens never."""

from __future__ import annotations

import re

from ddpdoctor.evidence.host import Environment
from ddpdoctor.host.host_access import HostAccess

ALLOWED = re.compile(
    r"(NCCL|TORCH|TORCHELASTIC|PYTORCH|GLOO|CUDA|CUBLAS|CUDNN|OMP|MKL|KMP|OPENBLAS|UCX|UCC|FI|OFI|IBV|MLX5|RDMAV|EFA|PET)_.+"
    r"|OMPI_COMM_WORLD_.+|PMI_(RANK|SIZE)|PMIX_(RANK|NAMESPACE)|MPI_LOCAL(RANKID|NRANKS)"
    r"|SLURM_(JOB_ID|JOBID|STEP_ID|STEPID|PROCID|NTASKS|LOCALID|NODEID|NNODES|JOB_NODELIST|NODELIST|STEP_NODELIST"
    r"|NTASKS_PER_NODE|TASKS_PER_NODE|GPUS_ON_NODE|CPUS_ON_NODE|CPUS_PER_TASK|STEP_GPUS|JOB_NUM_NODES|STEP_NUM_TASKS)"
    r"|(MASTER_(ADDR|PORT)|(LOCAL_|GROUP_|NODE_|ROLE_)?RANK|(LOCAL_|GROUP_|ROLE_)?WORLD_SIZE)"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONHASHSEED|PYTHONNOUSERSITE|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)"
    r"|KUBERNETES_SERVICE_HOST|PBS_JOBID|LSB_JOBID|LC_ALL|LANG|TZ|GOMP_CPU_AFFINITY|HSA_.+|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|AUTH")


def collect(access: HostAccess) -> list[Environment]:
    """One `Environment`."""
    return [
        Environment(
            variables={
                name: value
                for name, value in sorted(access.environ.items())
                if ALLOWED.fullmatch(name) and not SECRET.search(name)
            }
        )
    ]

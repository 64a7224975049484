from ddpdoctor.evidence.limits import Cpu
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks


def cpu(cores: int, **more) -> Cpu:
    return Cpu(affinity=tuple(range(cores)), **more)


SICK = (
    Sick(
        evidence=ranks(*[cpu(2, omp_threads=8)] * 2, per_host=2),
        says="2 local ranks on host-a run 16 threads (OMP_NUM_THREADS=8) on 2 usable CPU cores",
        hosts=("host-a",),
        measured={"threads": 16, "usable_cores": 2, "local_ranks": 2},
    ),
    Sick(
        evidence=ranks(*[cpu(2, omp_threads=1)] * 4, per_host=4),
        says="4 local ranks on host-a run 4 threads (OMP_NUM_THREADS=1) on 2 usable CPU cores",
        hosts=("host-a",),
        measured={"threads": 4, "usable_cores": 2, "local_ranks": 4},
    ),
    Sick(
        evidence=one_host(cpu(64, quota_cores=4.0)),
        says="1 local rank on host-a run 64 threads (OMP_NUM_THREADS unset) on 4 usable CPU cores",
        hosts=("host-a",),
        measured={"threads": 64, "usable_cores": 4.0, "local_ranks": 1},
    ),
    Sick(
        evidence=one_host(cpu(2, pressure_percent=63.2)),
        says="processes on host-a waited for a CPU during 63 % of the last ten seconds",
        hosts=("host-a",),
        severity=Severity.INFO,
        measured={"pressure_percent": 63.2},
    ),
)
PINNED = tuple(Cpu(affinity=(2 * rank, 2 * rank + 1)) for rank in range(4))
HEALTHY = (
    one_host(cpu(2)),
    one_host(cpu(2, quota_cores=0.5, omp_threads=1)),
    ranks(*[cpu(2, omp_threads=1)] * 2, per_host=2),
    ranks(*PINNED, per_host=4),
)

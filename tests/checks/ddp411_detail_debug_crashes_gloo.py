from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import variables

DETAIL = variables(TORCH_DISTRIBUTED_DEBUG="DETAIL")
CPU = TorchBuild(version="2.13.0+cpu", cuda_devices=0, distributed=True, backends=("gloo",))

SICK = (
    Sick(
        evidence=one_host(DETAIL, CPU),
        says="TORCH_DISTRIBUTED_DEBUG=DETAIL is set: DistributedDataParallel(...) on gloo dies of SIGSEGV in torch 2.13.0+cpu",
        also=("DDP191",),
        measured={"torch": "2.13.0+cpu"},
    ),
    Sick(  # the script has set it itself
        evidence=ranks(RankExit(exit_code=-15, ended_by_launcher=True), RankExit(exit_code=-11, debug="DETAIL")),
        says="rank 1 died of SIGSEGV with TORCH_DISTRIBUTED_DEBUG=DETAIL set, "
        "as DistributedDataParallel(...) on gloo does",
        ranks=(1,),
        also=("DDP403",),
    ),
    Sick(
        evidence=ranks((DETAIL, RankExit(exit_code=-15, ended_by_launcher=True)), (DETAIL, RankExit(exit_code=-11))),
        says="rank 1 died of SIGSEGV with TORCH_DISTRIBUTED_DEBUG=DETAIL set, "
        "as DistributedDataParallel(...) on gloo does",
        ranks=(1,),
        also=("DDP191", "DDP403"),
    ),
)
HEALTHY = (
    one_host(variables(TORCH_DISTRIBUTED_DEBUG="INFO"), CPU),
    one_host(variables(), CPU),
)

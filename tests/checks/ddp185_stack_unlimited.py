from ddpdoctor.evidence.limits import Limits
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host

SICK = (
    Sick(
        evidence=one_host(Limits(stack_bytes="unlimited"), TorchBuild(nccl_loaded="2.27.5")),
        says="the stack limit of host-a is unlimited: NCCL 2.27.5 then starts its threads with a stack of 2 MiB",
        hosts=("host-a",),
        measured={"nccl": "2.27.5"},
    ),
)
HEALTHY = (
    one_host(Limits(stack_bytes="unlimited"), TorchBuild(nccl_loaded="2.28.3")),
    one_host(Limits(stack_bytes=8 << 20), TorchBuild(nccl_loaded="2.27.5")),
)

from ddpdoctor.evidence.limits import Limits
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host

SICK = (
    Sick(
        evidence=one_host(Limits(stack_bytes="unlimited"), TorchBuild(nccl_loaded="2.27.5")),
        says="the stack is unlimited on host-a: NCCL 2.27.5 then gives its threads 2 MiB each",
        hosts=("host-a",),
    ),
)
HEALTHY = (
    one_host(Limits(stack_bytes="unlimited"), TorchBuild(nccl_loaded="2.28.3")),
    one_host(Limits(stack_bytes=8 << 20), TorchBuild(nccl_loaded="2.27.5")),
)

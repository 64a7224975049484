from ddpdoctor.evidence.variables import KnownNames, NameLookup
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks


def names(*judged: NameLookup) -> KnownNames:
    return KnownNames(read=("libtorch_cpu.so", "libnccl.so.2"), judged=judged)


TYPO = NameLookup(name="TORCH_NCCL_ASYN_ERROR_HANDLING", known=False, nearest="TORCH_NCCL_ASYNC_ERROR_HANDLING")
STRANGE = NameLookup(name="NCCL_MAKE_IT_FAST", known=False)
KNOWN = NameLookup(name="NCCL_DEBUG", known=True)

SICK = (
    Sick(
        evidence=one_host(names(TYPO, KNOWN)),
        says="TORCH_NCCL_ASYN_ERROR_HANDLING is set, but no installed library reads it; did you mean "
        "TORCH_NCCL_ASYNC_ERROR_HANDLING?",
        severity=Severity.WARN,
        measured={"variable": "TORCH_NCCL_ASYN_ERROR_HANDLING", "nearest": "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    ),
    Sick(
        evidence=ranks(names(KNOWN), names(STRANGE)),
        says="NCCL_MAKE_IT_FAST is set (rank 1), but no installed library reads it (2 searched)",
        ranks=(1,),
        severity=Severity.INFO,
        measured={"variable": "NCCL_MAKE_IT_FAST"},
    ),
)
HEALTHY = (one_host(names(KNOWN)), one_host(KnownNames(read=(), unjudged={"NCCL_DEBUG": "there is no libnccl"})))

from ddpdoctor.evidence.variables import KnownNames, NameLookup
from tests.checks import Sick, one_host
from tests.checks.hosts import variables

GONE = variables(NCCL_TREE_THRESHOLD="0")

SICK = (
    Sick(
        evidence=one_host(GONE, KnownNames(read=("libnccl.so.2",))),
        says="NCCL_TREE_THRESHOLD is set but has no effect: removed in NCCL 2.5; NCCL_ALGO replaced it",
        measured={"variable": "NCCL_TREE_THRESHOLD"},
    ),
)
HEALTHY = (
    one_host(GONE, KnownNames(read=("libnccl.so.2",), judged=(NameLookup(name="NCCL_TREE_THRESHOLD", known=True),))),
    one_host(variables(), KnownNames(read=())),
)

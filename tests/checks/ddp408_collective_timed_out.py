"""gloo's, NCCL's and the store's words for it; healthy: ranks that ended in order, or with an error of their own."""

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError, RankExit
from tests.checks import Sick, ranks

GLOO = RankError(
    type="RuntimeError",
    message="[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",
    stack=(Frame(file="/job/train.py", line=61, function="train_step"),),
)
NCCL = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600042 milliseconds before timing out."
)
FINE = RankExit(exit_code=0)

SICK = (
    Sick(
        evidence=ranks(RankExit(exit_code=1, error=GLOO), RankExit(exit_code=1, error=GLOO), RankExit(exit_code=None)),
        says="ranks 0-1 gave up waiting in a collective after 1800 s",
    ),
    Sick(
        evidence=ranks(RankExit(exit_code=-6, tail=(NCCL,)), RankExit(exit_code=None)),
        says="rank 0 gave up waiting in a collective after 600 s",
    ),
)
HEALTHY = (ranks(FINE, FINE),)

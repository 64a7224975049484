"""A full /dev/shm in the words of a DataLoader worker."""

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.limits import SharedMemory
from ddpdoctor.evidence.ranks import RankError, RankExit
from tests.checks import Sick
from tests.rank_ends import FINE, ended, raised

FULL = "unable to allocate shared memory(shm) for file </torch_1234_5>: No space left on device (28)"

IN_THE_WORKER = Frame(
    file="/venv/lib/python3.11/site-packages/torch/storage.py", line=414, function="_new_using_fd_cpu"
)
PASSED_ON = RankError(
    type="RuntimeError",
    message="Caught RuntimeError in DataLoader worker process 1.",
    stack=(Frame(file="/home/me/job/train.py", line=36, function="<module>"),),
    cause=RankError(type="RuntimeError", message=FULL, stack=(IN_THE_WORKER,)),
)

SICK = (
    Sick(  # the worker was in no line of the user's own: it is the rank's that received its error
        evidence=ended(FINE, RankExit(exit_code=1, error=PASSED_ON)),
        says=f"shared memory (/dev/shm) was full on rank 1: RuntimeError: {FULL}",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:36 <module>",),
        measured={"size_bytes": None},
    ),
    Sick(
        evidence=ended(FINE, raised(FULL)),
        says=f"shared memory (/dev/shm) was full on rank 1: RuntimeError: {FULL}",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"size_bytes": None},
    ),
    Sick(
        evidence=Evidence(
            ranks=(
                RankFacts(rank=0, host="a", facts=(raised(FULL), SharedMemory(size_bytes=1 << 40, free_bytes=1 << 39))),
            )
        ),
        says=f"shared memory (/dev/shm, 1e+03 GiB) was full on rank 0: RuntimeError: {FULL}",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"size_bytes": 1099511627776},
    ),
)
HEALTHY = (ended(FINE, FINE),)

"""NCCL asked of a build for the CPU."""

from ddpdoctor.evidence.ranks import RankError
from tests.checks import Sick
from tests.rank_ends import FINE, ended, logged, raised

WORDS = "Distributed package doesn't have NCCL built in"
LIBUV = "use_libuv was requested but PyTorch was build without libuv support"
NO_TRANSPORT = "makeDeviceForHostname(): unsupported gloo device"

SICK = (
    Sick(
        evidence=ended(raised(WORDS), raised(WORDS)),
        says="torch was built without NCCL, which the job asked for on ranks 0-1",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"backend": "NCCL"},
    ),
    Sick(
        evidence=logged(RankError(type="RuntimeError", message=WORDS)),
        says="torch was built without NCCL, which the job asked for",
        measured={"backend": "NCCL"},
    ),
    Sick(
        evidence=logged(RankError(type="RuntimeError", message=LIBUV)),
        says="torch was built without libuv, with which the store of the rendezvous was asked to work",
        measured={"backend": "libuv"},
    ),
    Sick(
        evidence=logged(RankError(type="RuntimeError", message=NO_TRANSPORT)),
        says="this build of torch has no transport of gloo for this system",
        measured={"backend": "gloo"},
    ),
)
HEALTHY = (ended(FINE, FINE),)

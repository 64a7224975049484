"""A C function that keeps the GIL, with and without its name; healthy: a rank whose interpreter ends."""

from ddpdoctor.evidence.ranks import RankExit
from tests.checks import Sick, at
from tests.hangs import hang, rank, stack

OWN = stack(user=(70, "checksum"))

SICK = (
    Sick(
        evidence=hang(rank(), rank(OWN, holds_gil=True, gil_never_free=True, native=("sleep (libc.so.6)",)), rank()),
        says="rank 1 in checksum (train.py:70) holds the GIL in sleep (libc.so.6); ranks 0,2 wait for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:70 checksum", *at("/job/train.py:61 train_step", 0, 2)),
        measured={"native": "sleep (libc.so.6)", "seconds": 6.1},
    ),
    Sick(
        evidence=hang(rank(OWN, holds_gil=True, gil_never_free=True), rank()),
        says="rank 0 in checksum (train.py:70) holds the GIL in a C function; rank 1 waits for it in backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:70 checksum", "rank 1 /job/train.py:61 train_step"),
        measured={"native": None, "seconds": 6.1},
    ),
)
SICK = (
    *SICK,
    Sick(
        evidence=hang(
            rank(stack(user=(5, "__del__")), holds_gil=True, gil_never_free=True, native=("sleep (libc.so.6)",)),
            (RankExit(exit_code=0),),
        ),
        says="rank 0 in __del__ (train.py:5) holds the GIL in sleep (libc.so.6); rank 1 has ended",
        ranks=(0,),
        where=("rank 0 /job/train.py:5 __del__",),
        measured={"native": "sleep (libc.so.6)", "seconds": 6.1},
    ),
)
JOINS = ("std::thread::join (libstdc++.so.6)", "c10d::ProcessGroupGloo::~ProcessGroupGloo (libtorch_cpu.so)")
SICK = (
    *SICK,
    Sick(  # the last reference to the process group went: it is to be destroyed before
        evidence=hang(
            rank(stack(user=(9, "main")), holds_gil=True, gil_never_free=True, native=JOINS), (RankExit(exit_code=0),)
        ),
        says="rank 0 in main (train.py:9) holds the GIL in std::thread::join (libstdc++.so.6); rank 1 has ended",
        ranks=(0,),
        where=("rank 0 /job/train.py:9 main",),
        measured={"native": "std::thread::join (libstdc++.so.6)", "seconds": 6.1},
    ),
)
ENDS = rank((), holds_gil=True, gil_never_free=True, native=("gc_collect_main (libpython3.11.so.1.0)",))
HEALTHY = (hang(rank(), rank()), hang(rank(), ENDS))

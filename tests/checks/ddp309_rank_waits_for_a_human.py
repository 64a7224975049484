"""pdb, and input() on a terminal; healthy: all ranks wait for each other."""

from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.source import CodePlace, SourceCode
from tests.checks import Sick, at, ranks
from tests.hangs import STDLIB, hang, rank, stack

PDB = stack((f"{STDLIB}/cmd.py", 126, "cmdloop"), (f"{STDLIB}/pdb.py", 420, "interaction"), user=(12, "train"))
INPUT = stack(user=(12, "train"))
ASKS = SourceCode(places=(CodePlace(file="/job/train.py", line=12, function="train", calls=("input", "load")),))
QUIT = RankError(type="bdb.BdbQuit", message="", stack=INPUT)

SICK = (
    Sick(
        evidence=hang(rank(), rank(), rank(PDB, system_call="read", waits_on="standard input")),
        says="rank 2 in train (train.py:12) waits for a person at the keyboard; ranks 0-1 wait for it in backward for 6.1 s",
        ranks=(2,),
        where=("rank 2 /job/train.py:12 train", *at("/job/train.py:61 train_step", 0, 1)),
        measured={"seconds": 6.1},
    ),
    Sick(
        evidence=hang(rank(INPUT, system_call="read", waits_on="standard input"), rank()),
        says="rank 0 in train (train.py:12) waits for a person at the keyboard; rank 1 waits for it in backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:12 train", "rank 1 /job/train.py:61 train_step"),
        measured={"seconds": 6.1},
    ),
    Sick(  # a launcher has put a pipe in the place of the keyboard
        evidence=hang(rank(INPUT, system_call="read", waits_on="a pipe"), rank(), facts=(ASKS,)),
        says="rank 0 in train (train.py:12) waits for a person at the keyboard; rank 1 waits for it in backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:12 train", "rank 1 /job/train.py:61 train_step"),
        measured={"seconds": 6.1},
    ),
    Sick(
        evidence=ranks(RankExit(exit_code=0), RankExit(exit_code=1, error=QUIT)),
        says="rank 1 came to a breakpoint, and there was nobody at a keyboard: the debugger ended it (BdbQuit)",
        ranks=(1,),
        also=("DDP401",),
        where=("rank 1 /job/train.py:12 train",),
    ),
)
HEALTHY = (hang(rank(), rank()),)

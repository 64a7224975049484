"""A worker that sleeps in a read, and a rank without workers; healthy: all ranks wait for each other."""

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import ChildProcess
from tests.checks import Sick, at
from tests.hangs import STDLIB, TORCH, hang, rank, stack

NEXT = stack(
    (f"{STDLIB}/multiprocessing/connection.py", 948, "wait"),
    (f"{STDLIB}/queue.py", 180, "get"),
    (f"{TORCH}/utils/data/dataloader.py", 1275, "_try_get_data"),
    (f"{TORCH}/utils/data/dataloader.py", 1482, "_next_data"),
    (f"{TORCH}/utils/data/dataloader.py", 733, "__next__"),
    user=(34, "train"),
)
WORKER = ChildProcess(
    pid=4711,
    kind="data loader worker",
    state="S",
    command="python train.py",
    cpu_share=0.0,
    stack=stack(user=(20, "__getitem__")),
)

SICK = (
    Sick(
        evidence=hang(rank(), rank(NEXT, system_call="poll", children=(WORKER,))),
        says="rank 1 in train (train.py:34) waits for its data loader; rank 0 waits for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:34 train", "rank 0 /job/train.py:61 train_step"),
        measured={"workers": [{"pid": 4711, "state": "S"}], "seconds": 6.1},
    ),
    Sick(
        evidence=hang(rank(NEXT), rank(), rank(), seconds=None),
        says="rank 0 in train (train.py:34) waits for its data loader; ranks 1-2 wait for it in backward",
        ranks=(0,),
        where=("rank 0 /job/train.py:34 train", *at("/job/train.py:61 train_step", 1, 2)),
        measured={"workers": [], "seconds": None},
    ),
)
READS_AGAIN = replace(WORKER, stack=(Frame(file="/job/data.py", line=7, function="decode"), *WORKER.stack))


def test_the_callers_of_the_workers_line_are_shown() -> None:
    evidence = hang(rank(), rank(NEXT, system_call="poll", children=(READS_AGAIN,)))
    (found,) = diagnose(evidence).findings
    called = "called in __getitem__ (/job/train.py:20), <module> (/job/train.py:90)"
    assert found.details == (f"its worker process 4711 sleeps in decode (/job/data.py:7), {called}, on CPU 0 %",)


HEALTHY = (hang(rank(), rank()),)

"""Another number of parameters and another shape, on a middle rank and on rank 0."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, WrappedModel
from ddpdoctor.evidence.source import CodePlace, RankValue, SourceCode
from tests.checks import Sick, at
from tests.rank_ends import FINE, LOST_PEER, PLACE, ended, raised

WRAPS = Frame(file="/home/me/job/train.py", line=40, function="main")


def wrapped(*dtypes: dict[str, int]) -> Evidence:
    """Each rank wraps a model of float32 and another one of these dtypes."""
    plain = WrappedModel(dtypes={"float32": 2}, place=WRAPS)
    return ended(*((CollectiveCalls(wrapped=(plain, WrappedModel(dtypes=one, place=WRAPS))),) for one in dtypes))


def counts(one: int, has: int, other: int, differs: int) -> str:
    return (
        f"DDP expects same model across all ranks, but Rank {one} has {has} params, "
        f"while rank {other} has inconsistent {differs} params."
    )


def shape(rank: int) -> str:
    return f"[{rank}]: params[3] in this process with sizes [16, 8] appears not to match sizes of the same param in process 0."


SICK = (
    Sick(
        evidence=ended(raised(counts(0, 10, 1, 12)), raised(counts(1, 12, 0, 10)), raised(counts(2, 10, 1, 12))),
        says="the model of rank 1 has 12 parameters, that of ranks 0,2 10",
        ranks=(1,),
        where=at("/home/me/job/train.py:48 train", 1, 0, 2),
        measured={"parameters": {"0": 10, "1": 12, "2": 10}},
    ),
    Sick(  # with the value that the source computes from the rank
        evidence=ended(
            *(raised(counts(rank, 10 + 2 * (rank == 1), 1 - (rank == 1), 12 - 2 * (rank == 1))) for rank in range(3)),
            job=(
                SourceCode(
                    places=(
                        CodePlace(
                            file=PLACE.file,
                            line=PLACE.line,
                            function=PLACE.function,
                            rank_values=(RankValue(line=45, text="layers + (rank == 1)"),),
                        ),
                    )
                ),
            ),
        ),
        says="the model of rank 1 has 12 parameters, that of ranks 0,2 10",
        ranks=(1,),
        where=(
            "/home/me/job/train.py:45 train",
            "rank 1 /home/me/job/train.py:48 train",
            "rank 0 /home/me/job/train.py:48 train",
            "rank 2 /home/me/job/train.py:48 train",
        ),
        measured={"parameters": {"0": 10, "1": 12, "2": 10}},
    ),
    Sick(
        evidence=wrapped({"float32": 4}, {"float64": 4}, {"float32": 4}),
        says="the parameters of rank 1 are float64, those of ranks 0,2 float32",
        ranks=(1,),
        where=tuple(f"rank {rank} /home/me/job/train.py:40 main" for rank in (1, 0, 2)),
        measured={"dtypes": {"0": {"float32": 4}, "1": {"float64": 4}, "2": {"float32": 4}}},
    ),
    Sick(  # the same dtypes, and other tensors that have them
        evidence=wrapped(*({"float32": 4 - one, "float16": one} for one in (1, 1, 2))),
        says="the parameters of rank 2 are 2 float32 and 2 float16, those of ranks 0-1 3 float32 and 1 float16",
        ranks=(2,),
        where=tuple(f"rank {rank} /home/me/job/train.py:40 main" for rank in (2, 0, 1)),
        measured={
            "dtypes": {str(rank): {"float32": 4 - one, "float16": one} for rank, one in enumerate((1, 1, 2))},
        },
    ),
    Sick(  # of two ranks neither is the majority
        evidence=wrapped({"float32": 3, "float16": 1}, {"float32": 4}),
        says="the parameters of rank 1 are float32, those of rank 0 3 float32 and 1 float16; no "
        "majority: either side may be at fault",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:40 main", "rank 1 /home/me/job/train.py:40 main"),
        measured={"dtypes": {"0": {"float32": 3, "float16": 1}, "1": {"float32": 4}}},
    ),
    Sick(
        evidence=ended(LOST_PEER, raised(shape(1)), LOST_PEER),
        says="parameter 3 has shape [16, 8] on rank 1, and another one on rank 0",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"index": 3},
    ),
    Sick(
        evidence=ended(LOST_PEER, raised(shape(1)), raised(shape(2))),
        says="parameter 3 has shape [16, 8] on ranks 1-2, and another one on rank 0",
        ranks=(0,),
        where=("rank 1 /home/me/job/train.py:48 train", "rank 2 /home/me/job/train.py:48 train"),
        measured={"index": 3},
    ),
)
HEALTHY = (
    ended(FINE, FINE),
    wrapped({"float32": 4}, {"float32": 4}),
    wrapped({"float32": 4, "bfloat16": 1}, {"bfloat16": 1, "float32": 4}),
    wrapped({"float32": 4}, {"float32": 6}, {"float32": 4}),  # one has parameters that it does not train
)

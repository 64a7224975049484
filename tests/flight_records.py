"""Flight records as a job of N ranks would leave them, written as `calls of each rank`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State
from ddpdoctor.evidence.source import CodePlace, SourceCode

START_NS = 1_800_000_000_000_000_000
STEP_NS = 100_000_000
TRAIN = "/home/me/job/train.py"
TORCH = Frame(file="/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line=9, function="f")


@dataclass(frozen=True)
class Did:
    """One call of one rank: `line` of train.py in `function`, called from line 100 of `main`."""

    op: str
    line: int = 61
    function: str = "train_step"
    sizes: tuple[tuple[int, ...], ...] = ((10,),)
    outputs: tuple[tuple[int, ...], ...] | None = None
    dtype: str = "Float"
    done: bool = True
    group: str = "0"
    members: tuple[int, ...] | None = None
    peers: tuple[int, int] | None = None
    main: int = 100


STEP = Did("all_reduce")


def waits(did: Did) -> Did:
    """The same call, not finished."""
    return replace(did, done=False)


def record(
    made: Sequence[Did],
    *,
    backend: str = "nccl",
    world: int = 4,
    first: int = 1,
    waited: float | None = 6.2,
    lost: int = 0,
) -> FlightRecord:
    """The record of a rank that made these calls, the last of them `waited` seconds before the dump."""
    groups: list[str] = []
    calls: list[Call] = []
    frames: list[Frame] = []
    stacks: list[tuple[int, ...]] = []
    call, seq, stack = [], [], []
    counts: dict[tuple[str, bool], int] = {}
    members: dict[str, tuple[int, ...]] = {}
    for did in made:
        if did.group not in groups:
            groups.append(did.group)
            members[did.group] = did.members or tuple(range(world))
        one = Call(
            group=groups.index(did.group),
            op=did.op,
            point_to_point=did.peers is not None,
            source=did.peers[0] if did.peers else None,
            target=did.peers[1] if did.peers else None,
            input_sizes=() if did.op == "barrier" else did.sizes,
            input_dtypes=() if did.op == "barrier" else (did.dtype,),
            output_sizes=() if did.op == "barrier" else did.outputs or did.sizes,
            output_dtypes=() if did.op == "barrier" else (did.dtype,),
            timeout_ms=600_000,
        )
        main = Frame(file=TRAIN, line=did.line if did.function == "main" else did.main, function="main")
        own = () if did.function == "main" else (Frame(file=TRAIN, line=did.line, function=did.function),)
        here = (TORCH, *own, main)
        frames += [frame for frame in here if frame not in frames]
        positions = tuple(frames.index(frame) for frame in here)
        calls += [one] if one not in calls else []
        stacks += [positions] if positions not in stacks else []
        counts[did.group, one.point_to_point] = counts.get((did.group, one.point_to_point), first - 1) + 1
        call.append(calls.index(one))
        stack.append(stacks.index(positions))
        seq.append(counts[did.group, one.point_to_point])
    created = tuple(START_NS + STEP_NS * number for number in range(len(made)))
    return FlightRecord(
        version="2.10",
        taken_at=created[-1] / 1e9 + waited if waited is not None and created else None,
        groups=tuple(
            ProcessGroup(
                backend=backend,
                name=name,
                description="default_pg" if name == "0" else "",
                ranks=members[name] if backend == "nccl" else None,
            )
            for name in groups
        ),
        calls=tuple(calls),
        frames=tuple(frames),
        stacks=tuple(stacks) or ((),),
        lost=lost,
        call=tuple(call),
        seq=tuple(seq),
        stack=tuple(stack),
        state=tuple(State.DONE if did.done else State.STARTED for did in made),
        created_ns=created,
    )


def flights(
    *each: Sequence[Did] | FlightRecord | None,
    backend: str = "nccl",
    code: Sequence[CodePlace] = (),
    facts: Mapping[int, Sequence[object]] | None = None,
    job: Sequence[object] = (),
) -> Evidence:
    """A job whose rank N made the calls `each[N]`; None for a rank without a record. `facts` are further facts of ranks."""
    facts = facts or {}
    ranks = []
    for rank, made in enumerate(each):
        own: list[object] = [*facts.get(rank, ())]
        if made is not None:
            own.append(made if isinstance(made, FlightRecord) else record(made, backend=backend, world=len(each)))
        if own:
            ranks.append(RankFacts(rank=rank, host="host-a", facts=tuple(own)))
    source = (SourceCode(places=tuple(code)),) if code else ()
    return Evidence(job=(*source, *job), ranks=tuple(ranks), about_job=True)

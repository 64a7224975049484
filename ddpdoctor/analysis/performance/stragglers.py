"""Who keeps the others waiting, step after step: from when each rank of a host made the collectives that all of them made.

All ranks take the same time for a step, as the collectives in it make them wait for the last one; the last one to reach
them is the slow one. DDP calls its collectives asynchronously: only where every rank made a call after all of them had made
the one before it, they had met, and a new round begins. Clocks of different hosts are not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ddpdoctor.analysis.collectives.recorders.timeline import NAMES_OF_DEFAULT_GROUP
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.step_times import Pace, ProcessorTime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Times = NDArray[np.int64]

LEAST_ROUNDS = 20  # fewer are warm-up and chance
MOST_FORWARDS = 16  # in a step: five updates of a critic, of two forwards each, and one of the generator are eleven
BATCH_PHASE = "while it waits for its batch"
LEAST_OF_ITS_DELAY = 0.25  # that a rank loses in one part of its rounds: below, the marks do not show where it is late
OUTLIER = 4.0  # times the median of its waits: what is longer, as a checkpoint, counts as so much
FULL = 0.8  # of the processors that a job may use: what others may take of the rest delays it by a quarter at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """The rank of one host that came last the most often."""

    host: str
    """The host whose ranks were compared."""
    rank: int
    """The rank that came last the most often."""
    rounds: int
    """The number of steps that were compared, or of rounds where no forwards tell steps."""
    counted: str
    """What was counted: `steps` where one has several rounds, else `collectives`."""
    last_in: int
    """In how many of them it was last."""
    of_the_waits: float = 1.0
    """The part of the seconds for which ranks waited for one alone that they waited for it; no outlier raises it."""
    seconds: float
    """By how much it was then behind the last but one: the median."""
    share: float
    """The part of all the time that these waits are."""
    phase: str | None
    """Where it lost most against its peers; None where no marks show it."""
    phase_seconds: float | None
    """How much it lost there in a round: the median."""
    crowded: float = 0.0
    """The part of the time by which it waited longer for a processor than its peers, beyond what its own work explains."""
    queued: float = 0.0
    """The part of the time by which it waited for a processor, beyond what its additional work explains; 0 where the counters of
    the scheduler were not read."""
    in_one_round: float = 1.0
    """The part of the delay of a step that its largest round makes up: the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """The latest rank of each host."""

    hosts: tuple[Straggler, ...]
    """One per host on which several ranks met in enough rounds."""


def derive(
    records: PerRank[FlightRecord], paces: PerRank[Pace] | None, processors: PerRank[ProcessorTime] | None
) -> Stragglers:
    """The latest rank of each host; of a host whose ranks did not meet often enough there is nothing to say."""
    marks = by_rank(paces)
    times = by_rank(processors)
    found = (_latest(host, ranks, marks, times) for host, ranks in records.by_host().items() if host and len(ranks) > 1)
    return Stragglers(hosts=tuple(straggler for straggler in found if straggler is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The rounds in which the ranks of one host met. Times are nanoseconds since the epoch."""

    ranks: tuple[int, ...]
    """The ranks of the host, in the order of the rows of `arrived`."""
    arrived: Times
    """When each rank arrived, of shape (ranks, rounds)."""
    released: Times
    """When the round before had released all ranks, of shape (rounds,)."""
    span_ns: float
    """From the first release to the last call that was recorded."""


def rounds_of(records: dict[int, FlightRecord]) -> Rounds | None:
    """The rounds of the ranks of one host; None where they did not meet often enough."""
    made = {rank: _made(record) for rank, record in records.items()}
    common = sorted(set.intersection(*(set(calls) for calls in made.values())))
    ranks = sorted(made)
    if len(common) < LEAST_ROUNDS:
        return None
    import numpy as np  # a tenth of a second, which most reports need not wait for

    times = np.array([[made[rank][seq] for seq in common] for rank in ranks], dtype=np.int64)
    met = times[:, :-1].max(axis=0)  # when the last rank had made the call before
    first = 1 + np.flatnonzero(times[:, 1:].min(axis=0) >= met)  # the first calls of rounds
    if len(first) < LEAST_ROUNDS:
        return None
    released = met[first - 1]
    return Rounds(
        ranks=tuple(ranks),
        arrived=times[:, first],
        released=released,
        span_ns=float(times[:, -1].max() - released[0]),
    )


def _latest(
    host: str, records: dict[int, FlightRecord], paces: dict[int, Pace], processors: dict[int, ProcessorTime]
) -> Straggler | None:
    rounds = rounds_of(records)
    if rounds is None:
        return None
    import numpy as np

    ranks, (delays, largest) = rounds.ranks, _delays(rounds, paces)
    in_order = np.sort(delays, axis=0)
    gaps = in_order[-1] - in_order[-2]
    last = delays.argmax(axis=0)
    who = int(np.bincount(last, minlength=len(ranks)).argmax())
    his = gaps[last == who]
    span, most = rounds.span_ns, OUTLIER * float(np.median(his))
    late = float(np.median(his)) / 1e9
    phase, lost = _phase(ranks, who, rounds.arrived, rounds.released, paces, LEAST_OF_ITS_DELAY * late)
    times = {rank: processors[rank] for rank in ranks if rank in processors}
    return Straggler(
        host=host,
        rank=ranks[who],
        rounds=len(last),
        counted="collectives" if len(last) == len(rounds.released) else "steps",
        last_in=len(his),
        of_the_waits=float(np.minimum(his, most).sum() / max(np.minimum(gaps, most).sum(), 1.0)),
        seconds=late,
        share=min(float(np.median(his)) * len(his), float(his.sum())) / span
        if span > 0
        else 0.0,  # no outlier raises it
        phase=phase,
        phase_seconds=lost,
        crowded=crowded(ranks[who], times),
        queued=queued(ranks[who], times),
        in_one_round=float(np.median(largest[who][last == who] / np.maximum(delays[who][last == who], 1))),
    )


def _delays(rounds: Rounds, paces: dict[int, Pace]) -> tuple[Times, Times]:
    """For how long all others waited for each rank alone, in all and in one round, of shape (ranks, steps).

    Steps are those of the first rank. A step can have many rounds, of which one makes them wait and the others tell nothing.
    Each counts alone where no forwards were recorded.
    """
    import numpy as np

    in_order = np.sort(rounds.arrived, axis=0)
    delays = np.where(rounds.arrived == in_order[-1], in_order[-1] - in_order[-2], 0)
    marks = paces.get(rounds.ranks[0])
    begins = _step_begins(marks) if marks is not None else ()
    step = np.searchsorted(np.array(begins, dtype=np.int64), rounds.released)
    steps, of_round = np.unique(step, return_inverse=True)
    if len(steps) < LEAST_ROUNDS:
        return delays, delays
    largest = np.zeros((len(delays), len(steps)), dtype=np.int64)
    for row, most in zip(delays, largest, strict=True):
        np.maximum.at(most, of_round, row)
    return np.array([np.bincount(of_round, weights=row) for row in delays], dtype=np.int64), largest


def _step_begins(pace: Pace) -> tuple[int, ...]:
    """When the steps of a rank began. A rank that does something once a step may be late into one of its forwards only.

    A step has several forwards where gradients are accumulated, and where several models are trained in turns: there it
    begins with the forward of the line that is called least often.
    """
    by_step = tuple(
        began
        for began, before, steps in zip(pace.forward_ns, (-1, *pace.forward_steps), pace.forward_steps, strict=False)
        if steps != before
    )
    rarest = min(pace.forward_lines, key=Counter(pace.forward_lines).__getitem__, default=None)
    by_line = tuple(began for began, line in zip(pace.forward_ns, pace.forward_lines, strict=False) if line == rarest)
    least = max(LEAST_ROUNDS, len(pace.forward_ns) / MOST_FORWARDS)
    return min((found for found in (by_step, by_line) if len(found) >= least), key=len, default=pace.forward_ns)


def crowded(late: int, processors: dict[int, ProcessorTime]) -> float:
    """The part of the time by which rank `late` waited longer for a processor than the median of its peers.

    The wait that its additional work brings is its own and does not count. Nor does that of its workers where the job
    alone fills the processors.
    """
    own = processors.get(late)
    peers = [time for rank, time in processors.items() if rank != late]
    if own is None or not peers:
        return 0.0
    own_wait = max(0.0, queued(late, processors) - median(peer.ready / peer.seconds for peer in peers))
    if fills_processors(processors.values()):
        return own_wait
    workers = median(peer.workers_ready / peer.seconds for peer in peers)
    return max(own_wait, own.workers_ready / own.seconds - workers)


def queued(late: int, processors: dict[int, ProcessorTime]) -> float:
    """The part of the time in which rank `late` waited for a processor, without what its additional work brings.

    A rank that works more than its peers also waits more where the host is full: the wait for that work, at the peers'
    rate, does not count.
    """
    own = processors.get(late)
    peers = [time for rank, time in processors.items() if rank != late]
    if own is None or not peers:
        return 0.0
    ran, ready = median(peer.ran / peer.seconds for peer in peers), median(peer.ready / peer.seconds for peer in peers)
    explained = max(0.0, own.ran / own.seconds - ran) * (ready / ran if ran > 0 else 0.0)
    return max(0.0, own.ready / own.seconds - explained)


def fills_processors(ranks: Iterable[ProcessorTime]) -> bool:
    """Whether these ranks of one host, with their loaders' workers, fill its processors: they wait for themselves then.

    At least `FULL` of the processors that they may use: processes of others have no more than a fifth of them, which makes
    the job's own work take 1 / 0.8 of its time.
    """
    known = [time for time in ranks if time.processors]
    used = sum(time.used / time.seconds for time in known)
    return bool(known) and used >= FULL * max(time.processors for time in known)


def _made(record: FlightRecord) -> dict[int, int]:
    """When each collective of the default group was made, by its number; of a coalesced one its first part."""
    default = {
        number
        for number, call in enumerate(record.calls)
        if not call.point_to_point
        and (
            record.groups[call.group].name in NAMES_OF_DEFAULT_GROUP
            or record.groups[call.group].description in NAMES_OF_DEFAULT_GROUP
        )
    }
    made: dict[int, int] = {}
    for call, seq, created in zip(record.call, record.seq, record.created_ns, strict=True):
        if call in default:
            made.setdefault(seq, created)
    return made


def _phase(
    ranks: Sequence[int], who: int, arrived: Times, released: Times, paces: dict[int, Pace], least: float
) -> tuple[str | None, float | None]:
    """The part of its rounds in which rank number `who` takes longer than its peers by most, and by how many seconds.

    None where those are fewer than `least`.
    """
    spent = {
        rank: phase_seconds(paces[rank], arrived[number], released)
        for number, rank in enumerate(ranks)
        if rank in paces
    }
    own = spent.pop(ranks[who], {})
    lost = {
        phase: seconds - median(peer[phase] for peer in spent.values())
        for phase, seconds in own.items()
        if spent and all(phase in peer for peer in spent.values())
    }
    phase = max(lost, key=lost.__getitem__, default=None)
    return (None, None) if phase is None or lost[phase] < least else (phase, lost[phase])


def phase_seconds(pace: Pace, arrived: Times, released: Times) -> dict[str, float]:
    """The median seconds of each part of this rank's rounds, among those in which every part can be told."""
    forward = _last_before(pace.forward_ns, arrived)
    asked, drawn = _last_before(pace.asked_ns, forward), _last_before(pace.drawn_ns, forward)
    here = forward >= released
    if here.sum() < LEAST_ROUNDS / 2:
        return {}
    spent = {"in its forward and backward": (arrived - forward)[here]}
    loaded = here & (asked >= released) & (drawn >= asked)
    if loaded.sum() < here.sum() / 2:
        spent["before its forward"] = (forward - released)[here]
    else:
        spent["between its last step and its next batch"] = (asked - released)[loaded]
        spent[BATCH_PHASE] = (drawn - asked)[loaded]
        spent["between its batch and its forward"] = (forward - drawn)[loaded]
    return {phase: float(median(times)) / 1e9 for phase, times in spent.items()}


def _last_before(marks: Sequence[int], times: Times) -> Times:
    """For each time the last mark that is not after it, 0 where there is none."""
    import numpy as np

    column = np.array((0, *sorted(marks)), dtype=np.int64)
    return column[np.searchsorted(column, times, side="right") - 1]

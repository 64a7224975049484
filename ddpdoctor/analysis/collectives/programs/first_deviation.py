"""Where a rank's program and that of a rank with the same part in the job first diverged for good, call by call."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from ddpdoctor.analysis.collectives.programs.call_patterns import agree, always_next, first_difference
from ddpdoctor.analysis.collectives.programs.program_comparison import ASKED_OF_A_SIDE, ProgramComparison
from ddpdoctor.analysis.collectives.programs.rank_program import FARTHEST
from ddpdoctor.analysis.collectives.programs.usual_course import Course, course, course_by_turns
from ddpdoctor.analysis.collectives.recorders.call_sequences import program_stack
from ddpdoctor.analysis.collectives.recorders.matching import EXCHANGES, common_shape
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall
from ddpdoctor.evidence.recorder import State


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDeviation:
    """Where a rank's program and that of a rank with the same part first diverged for good."""

    rank: int
    """The rank that is compared."""
    like: int
    """The rank with the same part."""
    left_out: tuple[IssuedCall, ...] = ()
    """Calls of `like` that the rank did not make at this point."""
    extra: tuple[IssuedCall, ...] = ()
    """Calls of the rank that `like` did not make at this point."""
    breaks_pattern: bool = False
    """Whether what it left out had always followed before, on both: then it is this rank that deviates, and not `like`."""


@dataclass
class FirstDeviations:
    """Compares the calls of ranks one by one, each rank with the nearest with its part."""

    programs: ProgramComparison
    """The calls of all ranks."""
    _numbered: dict[tuple[int, bool], list[int]] = field(default_factory=dict)
    _tokens_of: dict[Hashable, int] = field(default_factory=dict)

    def of(self, rank: int) -> FirstDeviation | None:
        """The calls that the rank first left out, or made besides, compared with the nearest rank with its part.

        None where its calls are those of its like as far as both go, or what followed was another program.
        """
        for like in islice(self.programs.like(rank), ASKED_OF_A_SIDE):
            found = self.between(rank, like)
            if found is not None:
                return found
        return None

    def between(self, rank: int, like: int) -> FirstDeviation | None:
        """The same, compared with this one."""
        (mine, own), (theirs, others) = self._from_a_common_call(rank, like)
        at = first_difference(mine, theirs)
        if at is None:
            return None
        for count in range(1, FARTHEST + 1):
            if agree(mine[at:], theirs[at + count :]):
                breaks_pattern = mine[at] in mine[:at] and always_next(mine[:at]) == theirs[at]
                names = self._own_names(rank, like)
                made = (self._issued_at(like, entry) for entry in others[at : at + count])
                left_out = tuple(replace(one, group=names.get(one.group, one.group)) for one in made)
                return FirstDeviation(rank=rank, like=like, left_out=left_out, breaks_pattern=breaks_pattern)
            if agree(mine[at + count :], theirs[at:]):
                extra = tuple(self._issued_at(rank, entry) for entry in own[at : at + count])
                return FirstDeviation(rank=rank, like=like, extra=extra)
        return None

    def turns_again(self, rank: int) -> bool:
        """Whether a rank makes calls of a loop once more, with the same sizes, where the nearest rank with its part left it.

        Where a line has another size in each turn, `for bucket in buckets: all_reduce(bucket)`, the first size begins a new loop.
        """
        for like in islice(self.programs.like(rank), ASKED_OF_A_SIDE):
            (mine, own), (theirs, others) = self._from_a_common_call(rank, like)
            at = first_difference(mine, theirs)
            if at is not None:
                ours, other = self._issued_at(rank, own[at]), self._issued_at(like, others[at])
                courses = {self.course(ours, other, with_sizes=with_sizes) for with_sizes in (False, True)}
                return courses == {Course.TURNS_AGAIN}
        return False

    def course(self, ours: IssuedCall, theirs: IssuedCall, *, with_sizes: bool = False) -> Course | None:
        """What a rank did that made the first of these calls where another rank made the second, by what usually follows.

        With sizes, calls at one line are the same only where they are of one size.
        """
        if ours.program and ours.program == theirs.program:
            return None
        mine, others = (self._tokens(rank, with_sizes=with_sizes) for rank in (ours.rank, theirs.rank))
        by_lines = bool(ours.program and theirs.program)
        return course(mine[: ours.entry], mine[ours.entry], others[theirs.entry], by_lines=by_lines)

    def course_by_turns(self, made: IssuedCall) -> Course | None:
        """What the rank did that made this call, by the turns of its own loop before."""
        return course_by_turns(self._tokens(made.rank)[: made.entry + 1])

    def _from_a_common_call(self, rank: int, like: int) -> tuple[tuple[list[int], range], tuple[list[int], range]]:
        """The calls of both as numbers, and their entries, from the first that both records hold; none where there is none."""
        mine, theirs = self.programs.records[rank], self.programs.records[like]
        starts = [*self._meet(rank, like)] if mine.lost or theirs.lost else [(0, 0)]
        first, other_first = starts[0] if starts else (len(mine), len(theirs))
        found = []
        for one, start in ((rank, first), (like, other_first)):
            calls = self._tokens(one)
            found.append((calls[start:], range(start, len(calls))))
        return found[0], found[1]

    def _meet(self, rank: int, like: int) -> Iterator[tuple[int, int]]:
        """Where in the two records the first call of either is, if both hold it."""
        mine, theirs = self.programs.program(rank), self.programs.program(like)
        for kind, places in mine.places.items():
            if places and places[0] == 0 and (other := theirs.place(kind, mine.numbers[kind][0])) is not None:
                yield 0, other
        for kind, places in theirs.places.items():
            if places and places[0] == 0 and (own := mine.place(kind, theirs.numbers[kind][0])) is not None:
                yield own, 0

    def _tokens(self, rank: int, *, with_sizes: bool = False) -> list[int]:
        """The calls of a rank in order, as numbers that mean the same on every rank: kind, operation, line or shapes."""
        if (rank, with_sizes) not in self._numbered:
            record, labels = self.programs.records[rank], self.programs.labels(rank)
            lines = self.programs.timeline.call_index.lines
            numbers = []
            for entry, position in enumerate(record.call):
                call = record.calls[position]
                name = record.groups[call.group].name
                stack = program_stack(record, record.stack[entry])
                if not stack and not call.point_to_point:
                    stack = lines.of(rank, name, record.seq[entry], waits=False)
                direction = None if not call.point_to_point else call.op
                sizes = common_shape((call,)) if call.op in EXCHANGES else call.input_sizes
                shapes = (sizes, call.input_dtypes)
                what = (stack, shapes) if with_sizes else stack or shapes
                numbers.append(
                    self._tokens_of.setdefault((labels[name], call.op, direction, what), len(self._tokens_of))
                )
            self._numbered[rank, with_sizes] = numbers
        return self._numbered[rank, with_sizes]

    def _issued_at(self, rank: int, entry: int) -> IssuedCall:
        record = self.programs.records[rank]
        call = record.calls[record.call[entry]]
        group = self._spoken(rank, record.groups[call.group].name)
        stack = program_stack(record, record.stack[entry])
        if not stack and not call.point_to_point:
            name = record.groups[call.group].name
            stack = self.programs.timeline.call_index.lines.of(rank, name, record.seq[entry], waits=False)
        return IssuedCall(
            rank=rank,
            entry=entry,
            seq=record.seq[entry],
            calls=(call,),
            group=group,
            program=stack,
            done=record.state[entry] is State.DONE,
            started=record.state[entry] is not State.SCHEDULED,
            created_ns=record.created_ns[entry],
        )

    def _own_names(self, rank: int, like: int) -> Mapping[str, str]:
        """What the rank's groups are called whose counterparts `like` has, by the names of these."""
        own = {label: name for name, label in self.programs.labels(rank).items()}
        return {
            self._spoken(like, name): self._spoken(rank, own[label])
            for name, label in self.programs.labels(like).items()
            if label in own
        }

    def _spoken(self, rank: int, name: str) -> str:
        """A group's name as findings say it."""
        groups = (one for one in self.programs.memberships.get(rank, ()) if one.group_sequences.group.name == name)
        found = next(groups, None)
        return f"group {name}" if found is None else found.name

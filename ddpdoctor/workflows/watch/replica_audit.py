"""Whether the replicas of a job under `watch --verify-sync` are still equal, by what its ranks write down as they train."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ddpdoctor.agent import gave_up
from ddpdoctor.agent.inside.process.freed_memory import return_freed_memory
from ddpdoctor.agent.inside.schema.hardware_records import Probe
from ddpdoctor.agent.inside.schema.rank_end import COMPARING
from ddpdoctor.agent.inside.schema.step_records import Step, Stepping
from ddpdoctor.agent.inside.schema.training_trace import segment_name
from ddpdoctor.agent.inside.schema.unwrapped_records import UnwrappedModel, UnwrappedModels, UnwrappedUse
from ddpdoctor.agent.inside.verify_sync_feature import EVERY, PROBE, RECOMPUTE
from ddpdoctor.agent.inside.verify_sync_feature import SEGMENT_SECONDS as SEGMENT
from ddpdoctor.agent.inside.verify_sync_feature import SHARE as BUDGET_SHARE
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.model import Severity
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.call_ring_reader import OtherVersionError
from ddpdoctor.ranks.training_trace_files import keep_segments, segments_of
from ddpdoctor.ranks.training_trace_reader import BrokenTraceError, read_tracks
from ddpdoctor.workflows.watch.judging_process import JudgingProcess

FAMILY = "DDP5"
SEGMENT_SECONDS = 10.0  # of a rank's trace, which keeps each segment for that long: some polls, on a busy host
SHARE = 0.005  # of the job's time that auditing may cost
POLL_SECONDS = 2.0
FIRST_JUDGEMENT_SECONDS = 60.0  # of audited steps, before all rules are asked although the weights are equal
LATER = 4.0  # times as many seconds until they are asked again
MOST_BYTES = 1 << 24  # of one rank's trace that one poll reads

QUESTION_SECONDS = 3.0  # at least, between two questions whether buffers or unwrapped models may differ
MOST_OPEN = 1000  # steps that one rank has yet to write; a rank that gave up never writes them

Record: TypeAlias = Step | Probe | UnwrappedModels | UnwrappedUse
StepKey: TypeAlias = tuple[int, int, int, int]
_KINDS = {f'["{kind.__name__}"'.encode(): kind for kind in (Step, Probe, UnwrappedModels, UnwrappedUse)}
Digests: TypeAlias = Mapping[str, tuple[int, str]]  # by name: the lowest rank that holds the same part, its fingerprint
_OF_PROBES = -1  # in the place of `since` in the key of a probe: it comes before the steps of the same forward
_MODEL = "model "  # what the names of unwrapped models begin with here, beside those of buffers


def audit_environment(every: int, probe_every: int = 0, *, recompute: bool = False) -> dict[str, str]:
    """The variables that a job's ranks need to audit every `every`th step, or with 0 as a small share of the time allows.

    They run the probe batch every `probe_every` steps, with 0 never, and make audited optimizer steps again with `recompute`.
    """
    return {
        EVERY: str(every),
        PROBE: str(probe_every),
        RECOMPUTE: str(int(recompute)),
        BUDGET_SHARE: str(SHARE),
        SEGMENT: str(SEGMENT_SECONDS),
    }


@dataclass(frozen=True, slots=True)
class Compared:
    """What one rank wrote down of one moment."""

    alike: tuple[str, ...] = ()
    """What must be equal on all ranks."""
    by_name: Mapping[str, str] = field(default_factory=dict)
    """What may differ by design, which rules judge."""
    parts: Digests = field(default_factory=dict)
    """What must be equal on the ranks that hold the same part."""


@dataclass(slots=True)
class ReplicaAudit:
    """Follows the traces of the ranks on this host, and holds no more of them than the steps that some ranks have yet to write.

    A step at which weights differ, a probe with other outputs, and now and then any step, is a reason to ask the rules about
    replicas. They are asked about what the ranks have kept of their traces: while weights are equal, in a process of its own,
    whose memory ends with it. Buffers and models beside the wrapped ones may differ by design: that they part is a reason to
    ask there, and so is that a model which differs is used.
    """

    directory: Path
    """Where the ranks write."""
    diverged: bool = False
    """Whether the rules found more than information; then nobody looks again before the job has ended."""
    compared: int = 0
    """How many steps all ranks have audited and were compared."""
    last: int = 0
    """The number of the last of these steps, from 1."""
    notes: tuple[str, ...] = ()
    """Why what the ranks have kept could not be judged, as `facts` found it last."""
    _traces: dict[int, _Trace] = field(default_factory=dict)
    _open: dict[StepKey, dict[int, Compared]] = field(default_factory=dict)
    _parts: dict[int, tuple[int, Digests]] = field(default_factory=dict)  # of a rank, for the step of this number
    _differ: bool = False
    _apart: set[str] = field(default_factory=set)  # the buffers and unwrapped models that differ
    _used: set[str] = field(default_factory=set)  # the unwrapped models that were called since the last poll
    _reasons: Counter[str] = field(default_factory=Counter)  # how often each of them was a reason to ask
    _is_asked: bool = False
    _next_question: float = 0.0
    _began: float | None = None
    _next_poll: float = 0.0
    _next_judgement: float = FIRST_JUDGEMENT_SECONDS
    _next_judgement_of_difference: float = 0.0
    _judging: JudgingProcess = field(default_factory=lambda: JudgingProcess("replica_rules.py"))

    def look(self, ranks: Sequence[RankProcess]) -> Evidence | None:
        """What the ranks wrote down, once a rule finds that their replicas differ, and once only; else None."""
        now = time.monotonic()
        if self.diverged or now < self._next_poll or len(ranks) < 2:
            return None
        self._next_poll = now + POLL_SECONDS
        self._read(ranks)
        if not self.compared:
            return None
        if self._began is None:
            self._began = now
        elapsed = now - self._began
        if self._differ and elapsed >= self._next_judgement_of_difference:
            self._differ = False
            self._next_judgement_of_difference = max(1.0, LATER * elapsed)
            return self.judge()
        if elapsed >= self._next_judgement:
            self._next_judgement = LATER * elapsed
            self._judging.start(str(self.directory))
        elif self._is_asked and elapsed >= self._next_question and not self._judging.is_running:
            self._is_asked, self._next_question = False, elapsed + QUESTION_SECONDS
            self._judging.start(str(self.directory))
        return self.judge() if self._judging.needs_a_look() else None

    def in_words(self, ranks: Sequence[RankProcess]) -> str:
        """`replicas compared at 6 steps, not after step 41`; empty for a job of one rank. The job has ended."""
        if len(ranks) < 2:
            return ""
        self._read(ranks)
        if not self.compared:
            return "replicas compared at no step"
        steps = f"replicas compared at {self.compared:,} step{'' if self.compared == 1 else 's'}"
        return f"{steps}, not after step {self.last:,}" if gave_up(COMPARING, self.directory) else steps

    def close(self) -> None:
        """End the process that asks the rules, where there is one."""
        self._judging.close()

    def facts(self) -> tuple[RankFacts, ...]:
        """What the ranks have kept of their traces; nothing, and a note, where one of them cannot be read."""
        self.notes = ()
        try:
            return read_tracks(self.directory)
        except OtherVersionError:
            return ()
        except BrokenTraceError as broken:
            self.notes = (f"the replicas were not judged: {broken.message}",)
            return ()

    def judge(self) -> Evidence | None:
        """What the ranks have kept, if a rule about replicas finds more than information in it now; else None."""
        evidence = Evidence(ranks=self.facts(), about_job=True)
        found = diagnose(evidence, select=(FAMILY,)).findings
        self.diverged = any(finding.severity is not Severity.INFO for finding in found)
        return_freed_memory()  # the ranks' traces
        if self.diverged:
            keep_segments(self.directory)
        return evidence if self.diverged else None

    def _read(self, ranks: Sequence[RankProcess]) -> None:
        """Compare what was written since the last call."""
        for agent in ranks:
            trace = self._traces.setdefault(agent.pid, _Trace(self.directory, agent.pid))
            for record in trace.new_records():
                if isinstance(record, UnwrappedUse):
                    self._used |= {_MODEL + record.name} if record.how == "forward" else set()
                else:
                    self._compare(agent.rank, record, len(ranks))
        self._forget_passed({agent.pid for agent in ranks})
        self._ask_about(self._used & self._apart)
        self._used.clear()

    def _compare(self, rank: int, record: Step | Probe | UnwrappedModels, ranks: int) -> None:
        key = _key(record)
        seen = self._open.setdefault(key, {})
        if isinstance(record, Step):
            parts = _digests(record.parts)
            seen[rank] = Compared((record.weights, record.after), record.buffers, parts)
            self._differ |= self._have_changed(rank, record, parts)
        elif isinstance(record, UnwrappedModels):
            seen[rank] = Compared(by_name={_MODEL + model.name: model.digest for model in map(_model, record.models)})
        else:
            seen[rank] = Compared((record.outputs, record.again))
            self._differ |= record.outputs != record.again
        if len(seen) == ranks:
            if isinstance(record, Step):
                self.compared, self.last = self.compared + 1, max(self.last, record.step + 1)
            self._differ |= len({one.alike for one in seen.values()}) > 1 or _differ(
                [one.parts for one in seen.values()]
            )
            self._compare_by_name([one.by_name for one in seen.values()])
            del self._open[key]

    def _have_changed(self, rank: int, record: Step, parts: Digests) -> bool:
        """Whether parts of parameters on a device mesh are not what they were on this rank after the step before.

        `parts` are those after this step.
        """
        if not parts:
            return False
        before, self._parts[rank] = self._parts.get(rank), (record.step + 1, parts)
        return (
            before is not None and before[0] == record.step and before[1] != _digests(Stepping(*record.stepping).parts)
        )

    def _compare_by_name(self, of_ranks: Sequence[Mapping[str, str]]) -> None:
        names = set(of_ranks[0]).intersection(*of_ranks[1:])
        differ = {name for name in names if len({mine[name] for mine in of_ranks}) > 1}
        self._ask_about(differ - self._apart)
        self._apart = (self._apart - names) | differ

    def _ask_about(self, names: set[str]) -> None:
        """Ask the rules soon: at the first, second, fourth time for each name, and so on, as it may differ by design."""
        self._reasons.update(names)
        self._is_asked |= any(self._reasons[name].bit_count() == 1 for name in names)

    def _forget_passed(self, pids: set[int]) -> None:
        """Forget the steps that some rank did not audit: it has written down a later one."""
        latest = [self._traces[pid].latest for pid in pids]
        passed = min((key for key in latest if key is not None), default=None) if None not in latest else None
        if passed is not None:
            self._open = {key: seen for key, seen in self._open.items() if key > passed}
        if len(self._open) > MOST_OPEN:
            self._open = {key: self._open[key] for key in sorted(self._open)[-MOST_OPEN:]}


def _key(record: Step | Probe | UnwrappedModels) -> StepKey:
    match record:
        case Step():
            return record.forwards, record.since, record.beside, 0
        case UnwrappedModels():  # written after the step
            return record.forwards, record.since, record.beside, 1
        case _:
            return record.forwards, _OF_PROBES, 0, 0


def _digests(parts: Mapping[str, Sequence[Any]]) -> Digests:
    return {name: (part[0], part[1]) for name, part in parts.items()}


def _differ(of_ranks: Sequence[Digests]) -> bool:
    """Whether two ranks that hold the same part of a parameter have other bytes of it."""
    held = {(name, part) for parts in of_ranks for name, part in parts.items()}
    return len(held) > len({(name, part[0]) for name, part in held})


def _model(written: Sequence[Any]) -> UnwrappedModel:
    return UnwrappedModel(*written)


@dataclass(slots=True)
class _Trace:
    """One rank's trace, read once from its first segment to its last."""

    directory: Path
    pid: int
    latest: StepKey | None = None
    """The last step that it holds so far."""
    _segment: int = 0
    _offset: int = 0

    def new_records(self) -> Iterator[Record]:
        """The audited steps, probes, and models beside the wrapped ones that were written since the last call."""
        if not self._file(self._segment).exists():  # the rank has written more than two segments since
            left = [number for number in segments_of(self.directory, self.pid) if number > self._segment]
            if not left:
                return
            self._segment, self._offset = left[0], 0
        while True:
            yield from self._rest_of_segment()
            if not self._file(self._segment + 1).exists():
                return
            yield from self._rest_of_segment()  # what was written between the two looks
            self._segment, self._offset = self._segment + 1, 0

    def _rest_of_segment(self) -> Iterator[Record]:
        try:
            with self._file(self._segment).open("rb") as file:
                file.seek(self._offset)
                data = file.read(MOST_BYTES)
        except OSError:
            return
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        for line in data.splitlines():
            kind = _KINDS.get(line.partition(b",")[0])
            if kind is None:
                continue
            try:
                record = kind(*json.loads(line)[1])
                if isinstance(record, UnwrappedModels) and record.phase != "step":
                    continue
                if not isinstance(record, UnwrappedUse):
                    self.latest = _key(record)
            except (ValueError, TypeError, LookupError):
                continue
            yield record

    def _file(self, segment: int) -> Path:
        return self.directory / f"{self.pid}.{segment_name(segment)}"

"""`ddpdoctor.track`: the tracker of `verify-sync SCRIPT` around a block of anyone's own code, in every rank."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import PurePath
from types import TracebackType
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from typing_extensions import Self

from ddpdoctor.agent import given_up
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.model import Report
from ddpdoctor.ranks.training_trace_reader import read_tracks
from ddpdoctor.replicas.hook_scope import InstalledTracker
from ddpdoctor.transport import store
from ddpdoctor.transport.peer_message import PeerError, decoded

WAIT_SECONDS = 60.0  # longer than one rank's evaluation or checkpoint after the block, shorter than NCCL's timeout
NOT_SEEN = ("DDP515",)  # collectives that the user's code imported by name before the block cannot be counted

_blocks = itertools.count()


class track:  # noqa: N801 - used like `open` or `suppress`
    """A context in which every optimizer step of this rank is written down, and judged with the other ranks' at its end.

        with ddpdoctor.track(model) as tracked:
            train(model)
        if tracked.report.findings: ...

    Every rank must enter it at the same place of its program. `models` are those wrapped already; one wrapped inside the
    block needs no mention. `every` is how many steps lie between two looks. Nothing is communicated inside the block; at its
    end each rank puts what it saw into the job's store and waits at most `wait_seconds` for the others, so that no rank
    hangs for one that raised. All hooks are gone afterwards.

    Raises:
        UsageError: no process group has been initialised, or a model is not under DistributedDataParallel.
    """

    def __init__(self, *models: DistributedDataParallel, every: int = 1, wait_seconds: float = WAIT_SECONDS) -> None:
        if every < 1:
            raise UsageError(f"track(every={every})", hint="give every=1 to look at every step, or a larger number")
        for model in models:
            if not isinstance(model, DistributedDataParallel):
                raise UsageError(
                    f"track was given a {type(model).__name__}, which is not wrapped in DistributedDataParallel",
                    hint="give the wrapper, or no model if it is wrapped inside the block",
                )
        self._models, self._every, self._wait = models, every, wait_seconds
        self._report: Report | None = None

    @property
    def report(self) -> Report:
        """The verdict over all ranks, the same on each.

        Raises:
            UsageError: the block has not ended yet.
        """
        if self._report is None:
            raise UsageError("the tracked block has not ended", hint="read the report after the `with` statement")
        return self._report

    def __enter__(self) -> Self:
        if not (dist.is_available() and dist.is_initialized()):
            raise UsageError(
                "track was entered before torch.distributed.init_process_group",
                hint="enter it on every rank, after init_process_group",
            )
        with ExitStack() as attempt:
            self._folder = attempt.enter_context(private_directory()).path
            self._hooked = InstalledTracker(str(self._folder), self._every, self._models)
            self._held = attempt.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hooked.remove()
        files, lost = {}, ""
        with self._held:
            try:
                written = [path for path in self._folder.iterdir() if path.is_file()]
                files = {path.name: path.read_text(encoding="utf-8") for path in written}
            except OSError as unreadable:
                lost = unreadable.strerror or type(unreadable).__name__
        raised = "" if kind is None else f"{kind.__name__}: {error}".encode(errors="backslashreplace").decode()
        exchange = _Exchange(f"ddpdoctor/track/{next(_blocks)}", time.monotonic() + self._wait)
        try:
            exchange.give(_FromRank(files=files, raised=raised, lost=lost))
            given = exchange.take() if kind is None else {}
            exchange.leave(wait=kind is None)
        except (dist.DistError, ValueError) as lost:  # ValueError: the block has destroyed the process group
            evidence = Evidence(undecided=(f"the job's store could not be reached: {lost}",))
        else:
            evidence = _evidence(given)
        if kind is None:
            self._report = diagnose(evidence, ignore=NOT_SEEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FromRank:
    """What a rank has to say at the end of its block."""

    files: dict[str, str]
    """The texts that its tracker wrote, by name."""
    raised: str
    """The exception with which it left the block; empty where it reached the end."""
    lost: str = ""
    """Why the files cannot be read, as where somebody has removed them; empty where they can."""


def _evidence(given: Mapping[int, _FromRank | PeerError | None]) -> Evidence:
    """What the ranks saw, brought together; None stands for a rank that did not come."""
    undecided = []
    with private_directory() as folder:
        for rank, message in given.items():
            if message is None:
                undecided.append(f"rank {rank} did not reach the end of the tracked block")
                continue
            if isinstance(message, PeerError):
                undecided.append(f"what rank {rank} sent cannot be used: {message}")
                continue
            if message.raised:
                undecided.append(f"rank {rank} left the tracked block with {message.raised}")
            if message.lost:
                undecided.append(f"the files of the tracker on rank {rank} cannot be read: {message.lost}")
            for name, text in message.files.items():
                with suppress(OSError, ValueError):  # no name of a file
                    (folder.path / f"{rank}.{PurePath(name).name}").write_text(text, encoding="utf-8")
        ranks, notes = read_tracks(folder.path), given_up(folder.path)
    tracks = [fact for facts in ranks for fact in facts.facts if isinstance(fact, Track)]
    if not any(track.steps for track in tracks):
        undecided.append("no optimizer made a step in the tracked block")
    return Evidence(ranks=ranks, notes=notes, undecided=tuple(undecided), about_job=True)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What each rank has to say, through the store that the process group was made with: no collective."""

    name: str
    deadline: float

    def give(self, message: _FromRank) -> None:
        """Leave what this rank has to say for the others."""
        store.put(_store(), self._of(dist.get_rank()), json.dumps(asdict(message)).encode())

    def take(self) -> dict[int, _FromRank | PeerError | None]:
        """What every rank had to say, None of one that left nothing in time; the last rank to read it clears it away."""
        return {rank: self._take(rank) for rank in range(dist.get_world_size())}

    def leave(self, *, wait: bool) -> None:
        """Say that this rank has read; with `wait` stay until all have: the store may live in the process of one of them."""
        if _store().add(f"{self.name}/left", 1) == dist.get_world_size():
            _store().set(f"{self.name}/all left", "")
        elif wait:
            store.comes(_store(), f"{self.name}/all left", until=self.deadline)

    def _take(self, rank: int) -> _FromRank | PeerError | None:
        shared, key = _store(), self._of(rank)
        try:
            data = store.get(shared, key, until=self.deadline)
            if data is None:
                return None
            message: _FromRank | PeerError = decoded(data, _FromRank, most_bytes=store.MOST_BYTES)
        except PeerError as error:
            message = error
        except ValueError as error:
            return PeerError(str(error))
        if shared.add(f"{key}/read", 1) == dist.get_world_size():
            store.clear(shared, key)
            shared.delete_key(f"{key}/read")
        return message

    def _of(self, rank: int) -> str:
        return f"{self.name}/{rank}"


def _store() -> Any:  # noqa: ANN401 - any of torch's stores
    return dist.distributed_c10d._get_default_store()  # noqa: SLF001 - the one every rank has

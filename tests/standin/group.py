"""A process group that enqueues like NCCL's and has gloo do the work."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup, ProcessGroupGloo

from .recorder import RECORDER, Group
from .stream import Lane, Work, spin, synchronising
from .watchdog import Watchdog

# method: what NCCL's recorder calls it; whether all ranks must give as many elements; where its inputs and outputs are
COLLECTIVES = {
    "allreduce": ("all_reduce", True, 0, 0),
    "broadcast": ("broadcast", True, 0, 0),
    "reduce": ("reduce", True, 0, 0),
    "allreduce_coalesced": ("allreduce_coalesced", True, 0, 0),
    "allgather": ("all_gather", False, 1, 0),
    "allgather_coalesced": ("all_gather", False, 1, 0),
    "_allgather_base": ("_all_gather_base", True, 1, 0),
    "all_gather_single": ("_all_gather_base", True, 1, 0),
    "reduce_scatter": ("reduce_scatter", False, 1, 0),
    "_reduce_scatter_base": ("_reduce_scatter_base", True, 1, 0),
    "reduce_scatter_single": ("_reduce_scatter_base", True, 1, 0),
    "gather": ("gather", False, 1, 0),
    "scatter": ("scatter", False, 1, 0),
    "alltoall": ("all_to_all", False, 1, 0),
    "alltoall_base": ("all_to_all", False, 1, 0),
    "all_to_all_single": ("all_to_all", False, 1, 0),
}
IN_GLOO = {  # what torch 2.13 calls them in a group, and gloo's own name
    "all_gather_single": "_allgather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
}
C10D = "/torch/distributed/distributed_c10d.py"
MOST_CALLERS = 12  # from a collective to the function of torch.distributed that the program called


class DisagreementError(Exception):
    """Ranks made different collectives of one: on a device it would never complete."""


class StandIn(ProcessGroup):  # type: ignore[misc]
    """A process group whose collectives return at once, over a gloo group that executes them."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta = timedelta(minutes=10)) -> None:
        super().__init__(rank, size)
        self._gloo = ProcessGroupGloo(store, rank, size, timeout)
        self._timeout = timeout
        self._lanes: dict[str, Lane] = {}
        self._calls = self._sends = self._operations = 0
        self._recorded = Group(number=len(RECORDER.groups))
        RECORDER.groups.append(self._recorded)
        self._works: list[Work] = []
        self.options = SimpleNamespace()  # PyTorch writes the group's ranks there

    def getBackendName(self) -> str:  # noqa: N802 - PyTorch's name
        """As a group on GPUs says."""
        return "nccl"

    def name(self) -> str:
        """As a group on GPUs says."""
        return "nccl"

    def _set_sequence_number_for_group(self) -> None:
        """Numbers begin at 1."""

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def _set_group_name(self, name: str) -> None:
        self._recorded.name = name

    def _set_group_desc(self, description: str) -> None:
        self._recorded.description = description

    def getGroupName(self) -> str:  # noqa: N802 - PyTorch's name
        """The name, for C++."""
        return self._recorded.name

    def getGroupDesc(self) -> str:  # noqa: N802 - PyTorch's name
        """The description, for C++."""
        return self._recorded.description

    @property
    def group_name(self) -> str:
        """The name."""
        return self._recorded.name

    @property
    def group_desc(self) -> str:
        """The description."""
        return self._recorded.description

    def barrier(self, opts: Any = None) -> Work:
        """A barrier; whoever waits for it spins."""
        token = [torch.zeros(1)]
        return self._enqueue("all_reduce_barrier", lambda: self._gloo.barrier(opts).wait(), token, token, blocks=True)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Block as gloo's own does: NCCL has none, so a job on GPUs makes it in a group of gloo too."""
        self._gloo.monitored_barrier(timeout or self._timeout, wait_all_ranks)

    def send(self, tensors: list[torch.Tensor], target: int, tag: int) -> Work:
        """A send, on the lane of the pair."""
        me, other = self._global(self.rank()), self._global(target)
        return self._pass_on(f"send {me}->{other}", tensors, lambda: self._gloo.send(tensors, target, tag).wait())

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int) -> Work:
        """A receive, on the lane of the pair."""
        me, other = self._global(self.rank()), self._global(source)
        return self._pass_on(f"recv {me}<-{other}", tensors, lambda: self._gloo.recv(tensors, source, tag).wait())

    def shutdown(self) -> None:
        """Wait for what is under way, unless an error ends the program."""
        if sys.exc_info()[1] is None:
            spin(lambda: all(work.through.is_set() for work in self._works))

    def abort(self) -> None:
        """Leave everything as it is: the process ends."""

    def _global(self, rank: int) -> int:
        ranks = self._recorded.ranks
        return ranks[rank] if rank < len(ranks) else rank

    def _pass_on(self, operation: str, tensors: list[torch.Tensor], run: Callable[[], Any]) -> Work:
        inputs, outputs = (tensors, []) if operation.startswith("send") else ([], tensors)
        return self._enqueue(operation, run, inputs, outputs, lane=operation.replace("recv", "send"), p2p=True)

    def _collective(self, method: str, args: Sequence[Any]) -> Work:
        operation, alike, of_inputs, of_outputs = COLLECTIVES[method]
        inputs, outputs = _flat(args[of_inputs]), _flat(args[of_outputs])
        root = getattr(args[-1], "rootRank", -1)
        told = (operation, root, [(tensor.numel(), str(tensor.dtype)) for tensor in inputs] if alike else ())

        def run() -> None:
            self._agree(repr(told))
            getattr(self._gloo, IN_GLOO.get(method, method))(*args).wait()

        called_by_python = sys._getframe(2).f_code.co_filename.endswith(C10D)
        reads_the_result = any("object" in name for name in _callers_in_c10d(sys._getframe(2)))
        work = self._enqueue(operation, run, inputs, outputs, blocks=not called_by_python or reads_the_result)
        if not called_by_python:
            _wait_in_backward(work)
        return work

    def _agree(self, told: str) -> None:
        """Compare with all ranks what they are about to execute.

        Raises:
            DisagreementError: they differ.
        """
        mine = torch.frombuffer(bytearray(hashlib.sha256(told.encode()).digest()), dtype=torch.uint8)
        theirs = [torch.empty_like(mine) for _ in range(self.size())]
        self._gloo.allgather([theirs], [mine]).wait()
        if any(not torch.equal(other, mine) for other in theirs):
            raise DisagreementError

    def _enqueue(
        self,
        operation: str,
        run: Callable[[], Any],
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        *,
        lane: str = "collectives",
        p2p: bool = False,
        blocks: bool = False,
    ) -> Work:
        if not self._recorded.ranks:
            self._recorded.ranks = tuple(sorted(dist.distributed_c10d._world.pg_group_ranks.get(self, {})))
        self._operations += 1
        self._calls, self._sends = self._calls + (not p2p), self._sends + p2p
        entry = RECORDER.add(
            group=self._recorded,
            operation=operation,
            collective=self._calls,
            point_to_point=self._sends,
            op_id=self._operations,
            is_p2p=p2p,
            inputs=inputs,
            outputs=outputs,
            timeout_ms=int(self._timeout.total_seconds() * 1000),
        )
        work = Work(entry, run, [*outputs] or [*inputs], blocks=blocks)
        self._works = [*(before for before in self._works if not before.through.is_set()), work]
        if lane not in self._lanes:
            self._lanes[lane] = Lane(f"standin {lane}")
        self._lanes[lane].put(work)
        return work


def _method(name: str) -> Callable[..., Work]:
    def call(self: StandIn, *args: Any) -> Work:
        return self._collective(name, args)

    call.__name__ = name
    return call


for _name in COLLECTIVES:
    setattr(StandIn, _name, _method(_name))


def _flat(tensors: Any) -> list[torch.Tensor]:
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for inner in tensors for tensor in _flat(inner)]


def _callers_in_c10d(frame: FrameType | None) -> Iterator[str]:
    """The functions of torch.distributed among the innermost callers: an agent may have wrapped some of them."""
    for _ in range(MOST_CALLERS):
        if frame is None:
            return
        if frame.f_code.co_filename.endswith(C10D):
            yield frame.f_code.co_name
        frame = frame.f_back


def _wait_in_backward(work: Work) -> None:
    """Spin at the end of a backward pass, before the reducer waits for its bucket."""
    try:
        torch.autograd.Variable._execution_engine.queue_callback(lambda: spin(work.through.is_set))
    except RuntimeError:
        return  # no backward pass is under way


def install(c10d: ModuleType) -> None:
    """Let every gloo group of this process be a stand-in, with its recorder and its watchdog."""
    c10d.ProcessGroupGloo = StandIn  # type: ignore[attr-defined]
    torch._C._distributed_c10d._dump_fr_trace = RECORDER.dump
    synchronising()
    Watchdog().start()

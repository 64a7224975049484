"""Training traces of several ranks, written by one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema import data_records, hardware_records, model_records, step_records, unwrapped_records
from ddpdoctor.agent.inside.schema.call_ring import Header
from ddpdoctor.agent.inside.schema.training_trace import VERSION, Joined
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.ranks.agent_files import RankProcess

FIRST_PID = 1000
STEPPING = step_records.Stepping("SGD", None, {"lr": "0.1"}, [], None, model_records.NamedDigests([], ""), {})


class _OneOfMany(Rank):
    """A rank with files of its own beside those of other ranks of this process."""

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{FIRST_PID + (self.number or 0)}.{suffix}"


class TracedRank:
    """Writes what a rank of one parameter writes at its audited steps."""

    def __init__(self, folder: Path, number: int, *, segment_seconds: float = 0.0) -> None:
        rank = _OneOfMany(str(folder))
        rank.place((), {"rank": number, "world_size": 2})
        self._writer = TraceWriter(rank, segment_seconds=segment_seconds)
        self.process = RankProcess(directory=folder, pid=FIRST_PID + number, header=Header(rank=number, world_size=2))
        self._writer.write(Joined(VERSION, number, "node1", "linear", 1))
        self._writer.write(
            model_records.ModelListing(
                [model_records.TensorRow("parameter", "w", "float32", [2], [1], requires_grad=True, tied_to="")]
            )
        )
        self._writer.write(model_records.Wrapped(None))

    def step(
        self,
        number: int,
        *,
        after: str = "",
        filler: str = "",
        rate: str = "0.1",
        buffers: dict[str, str] | None = None,
        parts: tuple[dict[str, step_records.Part], dict[str, step_records.Part]] = ({}, {}),
    ) -> None:
        """Write one step that ends with the weights `after`, which all ranks share unless it is given.

        `parts` are those on a device mesh, before it and after it.
        """
        self._writer.roll()
        keys = f"weights {number}", after or f"weights {number + 1}"
        for phase, key in zip(("weights", "after"), keys, strict=True):
            digest = f"{abs(hash(key)) % 16**16:016x}"
            self._writer.write(
                model_records.Table(phase, key, ["w"], digest, [model_records.Samples(None, "int8", digest[:4])], [[2]])
            )
        self._writer.write(
            step_records.Step(
                step=number, forwards=number + 1, since=0, beside=0, shadowed=0,
                backward=step_records.Backward(wrapped=1, input=f"input of {self.process.rank}{filler}"),
                position=None, scale=None, stepping=STEPPING._replace(settings={"lr": rate}, parts=parts[0]), gradients=None,
                buffers=buffers or {},
                weights=keys[0], after=keys[1], parts=parts[1], random_before={}, random_after={}, bypassed={}, comm_hook=None,
                writes={},
            )
        )  # fmt: skip

    def probe(self, number: int, outputs: str = "a" * 16, again: str = "a" * 16) -> None:
        """Write the probe of a model of one module before step `number`."""
        self._writer.write(
            hardware_records.Probe(number, number + 1, "weights", "batch", ["the model"], outputs, again, {})
        )

    def leave(self) -> None:
        """A signal handler of the job's has raised an exception in an audit, and the job goes on."""
        self._writer.leave_to_the_job(TimeoutError())

    def average(self, number: int, digest: str, *, called: bool = False) -> None:
        """Write the fingerprint of a model beside the wrapped one after step `number`, and that it was `called` since."""
        model = unwrapped_records.UnwrappedModel("ema", "Net", 1, digest)
        self._writer.write(unwrapped_records.UnwrappedModels(number + 1, number + 1, 0, 0, "step", [model]))
        if called:
            self._writer.write(unwrapped_records.UnwrappedUse("ema", "forward", number + 2, None))

    def close(self) -> None:
        """The rank ends without a last record, as after SIGKILL."""
        self._writer.close()

    def evaluate(self, step: int) -> None:
        """Write one evaluation before `step`."""
        self._writer.write(data_records.Evaluation(step, 1, 8, "ab", 1, None))

    def drop_a_handle(self, step: int) -> None:
        """Write that the handle of an asynchronous collective was thrown away before `step`."""
        self._writer.write(step_records.UnwaitedWork("all_reduce", step, None, ""))

    def finish_pass(self, number: int) -> None:
        """Write pass `number` over the only data loader."""
        self._writer.write(
            data_records.Epoch(0, number, 8, 8, finished=True, line=None, sampler="DistributedSampler", indices=None)
        )


@contextmanager
def traced_ranks(folder: Path, *, segment_seconds: float = 0.0) -> Iterator[Callable[[int], TracedRank]]:
    """A function that makes a rank of a number; all are closed in the end."""
    with ExitStack() as stack:

        def make(number: int) -> TracedRank:
            rank = TracedRank(folder, number, segment_seconds=segment_seconds)
            stack.callback(rank.close)
            return rank

        yield make

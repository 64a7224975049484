"""A forward of one batch, the same on all ranks, beside the training: equal weights must give equal outputs.

The batch is the first one of rank 0, which the others receive through the store of the process group, once. The forward runs in
evaluation mode without gradients. Afterwards training flags, buffers and random generators are what they were before.
"""

from __future__ import annotations

import io
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..job_modes import put_back, set_aside
from ..schema.hardware_records import Probe
from ..signal_errors import pass_on
from ..tensors.named_tensors import unwrapped
from ..tensors.tensor_digests import Digests, tensors_in
from ..trace_writer import TraceWriter

KEY = "ddpdoctor/probe batch"
SAMPLES = 2  # of the batch: enough for every layer, and little work
MOST_BYTES = 16 << 20  # through the store
STORE_SECONDS = 60.0  # rank 0 is at its first forward, too: DDP has met in its constructor
SEED = 20250722
NOTHING = "cannot be sent to other ranks"


class ProbeLog:
    """Runs the probe before every `every`th step, counted in steps; never with 0."""

    def __init__(self, trace: TraceWriter, digests: Digests, every: int) -> None:
        self._trace, self._digests, self.every = trace, digests, every
        self._batch: Any = None
        self._module: weakref.ref[nn.Module] | None = None
        self._next = 0
        self._runs = False

    def forward(self, module: nn.Module, inputs: Any, weights: Callable[[], str], step: int, forwards: int) -> None:  # noqa: ANN401
        """The wrapped `module` is about to run on `inputs` (its arguments, and those by name), with its buffers made equal.

        The probe is the first module's that comes. Where it fails, there is none from then on, and the report says why.
        """
        if not self.every or self._runs or step < self._next:
            return
        if self._module is None:
            self._module = weakref.ref(module)
        if self._module() is not module:
            return
        self._next = (step // self.every + 1) * self.every
        self._runs = True
        try:
            if self._batch is None:
                self._batch = _shared(inputs, self._trace.rank.number or 0, _device(module))
            first, again = self._outputs(module), self._outputs(module)
        except Exception as error:
            pass_on(error)
            self.every = 0
            self._trace.rank.give_up("the probe batch", f"{type(error).__name__}: {error}")
            return
        finally:
            self._runs = False
        self._trace.write(
            Probe(
                step=step,
                forwards=forwards,
                weights=weights(),
                input=self._digests.of([*tensors_in(self._batch), *module.buffers()]),
                modules=[name for name, _ in first],
                outputs="".join(digest for _, digest in first),
                again="".join(digest for _, digest in again),
                settings=_settings(module),
            )
        )

    @property
    def never_ran(self) -> bool:
        """Whether it was asked for, and no module came."""
        return bool(self.every) and self._module is None

    @property
    def is_running(self) -> bool:
        """Whether the forward that is going on is the probe's."""
        return self._runs

    def _outputs(self, module: nn.Module) -> list[tuple[str, str]]:
        """Of every module that returned tensors its name with its class, and their fingerprint, in the order of their returns."""
        found: list[tuple[str, str]] = []

        def returned(name: str) -> Callable[..., None]:
            def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:  # noqa: ANN401
                with set_aside():
                    tensors = [*tensors_in(output)]
                    if tensors:
                        found.append((name, self._digests.of(tensors)))

            return hook

        args, kwargs = self._batch
        with ExitStack() as stack:
            stack.enter_context(_undisturbed(module))
            for name, one in module.named_modules():
                shown = f"{name or 'the model'} ({type(unwrapped(one)).__name__})"
                stack.callback(one.register_forward_hook(returned(shown)).remove)
            stack.enter_context(put_back())
            module(*args, **kwargs)
        return found


@contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients and with fixed random numbers; in the end everything is as it was."""
    training = {one: one.training for one in module.modules()}
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    devices = [_device(module).index] if _device(module).type == "cuda" else []
    state = random.getstate()
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(SEED)
        try:
            for one in training:
                one.training = False
            yield
        finally:
            for one, flag in training.items():
                one.training = flag
            for buffer, value in buffers:
                if not torch.equal(buffer, value):
                    buffer.data.copy_(value)
            random.setstate(state)


def _shared(inputs: Any, rank: int, device: torch.device) -> Any:  # noqa: ANN401
    """Rank 0's `inputs`, or a few samples of them, on `device`.

    Raises:
        ValueError: they hold something else than tensors and plain values, or too much.
    """
    store: Any = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - the only one that all ranks have
    if rank == 0:
        packed = io.BytesIO()
        try:
            torch.save(_few(_plain(inputs), inputs), packed)
            data = packed.getvalue()
        except ValueError as error:
            pass_on(error)
            data = b""
        store.set(KEY, data if len(data) <= MOST_BYTES else b"")
    store.wait([KEY], timedelta(seconds=STORE_SECONDS))
    data = store.get(KEY)
    if not data:
        raise ValueError(
            f"--probe-every: the model's input {NOTHING}: something else than tensors, or over {MOST_BYTES >> 20} MiB"
        )
    return torch.load(io.BytesIO(data), map_location=device, weights_only=True)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """`value` with tensors in the CPU's memory, in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        if value.layout is not torch.strided:
            raise ValueError(type(value).__name__)
        return value.detach().cpu().clone()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) in {list, tuple}:
        return type(value)(map(_plain, value))
    if hasattr(value, "items") and hasattr(value, "keys"):
        return {str(name): _plain(item) for name, item in value.items()}
    raise ValueError(type(value).__name__)


def _few(plain: Any, inputs: Any) -> Any:  # noqa: ANN401
    """The first samples, where all tensors have as many."""
    tensors: Sequence[Tensor] = [*tensors_in(inputs, 8)]
    counts = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    return _cut(plain) if len(counts) == 1 and counts.pop() > SAMPLES else plain


def _cut(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, Tensor):
        return value[:SAMPLES].clone()
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return type(value)(map(_cut, value)) if isinstance(value, (list, tuple)) else value


def _device(module: nn.Module) -> torch.device:
    first = next(module.parameters(), None)
    return first.device if first is not None else torch.device("cpu")


def _settings(module: nn.Module) -> dict[str, str]:
    """What the result depends on besides weights and input."""
    device = _device(module)
    found = {
        "torch": torch.__version__,
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "autocast": str(torch.get_autocast_dtype(device.type)) if torch.is_autocast_enabled(device.type) else "off",
    }
    if device.type == "cuda":
        cudnn = torch.backends.cudnn
        found |= {
            "GPU": torch.cuda.get_device_name(device),
            "cuDNN": str(cudnn.version()),
            "cuDNN benchmark": str(cudnn.benchmark),
            "cuDNN deterministic": str(cudnn.deterministic),
        }
    else:
        found |= {"threads": str(torch.get_num_threads()), "CPU kernels": torch.backends.cpu.get_cpu_capability()}
    return found


def device_name(module: nn.Module) -> str:
    """The model and the unique number of the GPU that holds `module`; nothing for a CPU."""
    device = _device(module)
    if device.type != "cuda":
        return ""
    properties = torch.cuda.get_device_properties(device)
    number = getattr(properties, "uuid", None)
    return properties.name + (f", GPU-{number}" if number else "")

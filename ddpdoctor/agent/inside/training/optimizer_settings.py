"""What optimizers step with besides tensors, and the user's lines that gave it to them: made, loaded, scheduled."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.optim import Optimizer, lr_scheduler

from ..schema.source_line import SourceLine
from ..trace_writer import TraceWriter, user_line

SCHEDULED = "lr"
COUNT = "number of parameters"  # of a group
SCHEDULES = tuple(
    kind
    for kind in vars(lr_scheduler).values()
    if isinstance(kind, type) and issubclass(kind, lr_scheduler.LRScheduler) and "step" in vars(kind)
)

Options = dict[tuple[int, int, str], str]  # by the identity of the optimizer, the parameter group, and the name


class Settings:
    """Every option of every parameter group, and how many parameters it has.

    `lines` and `loaded` tell where the present ones come from.
    """

    def __init__(self) -> None:
        self._given: WeakKeyDictionary[Optimizer, dict[tuple[int, str], tuple[str, SourceLine]]] = WeakKeyDictionary()
        self._written: WeakKeyDictionary[Optimizer, dict[tuple[int, str], SourceLine]] = WeakKeyDictionary()
        self._loaded: WeakKeyDictionary[Optimizer, SourceLine] = WeakKeyDictionary()
        self.are_loaded = False
        """Whether any state dict was loaded since the last step of its optimizer: each step asks."""

    def install(self, trace: TraceWriter) -> None:
        """Follow parameter groups, loaded state dicts and the steps of learning-rate schedules."""
        grouped, loads, scheduled = map(trace.observing, (self.grouped, self.loads, self.scheduled))
        _after(Optimizer, "add_param_group", grouped)
        _after(Optimizer, "load_state_dict", loads)
        for schedule in SCHEDULES:
            _after(schedule, "step", scheduled)

    @property
    def optimizers(self) -> list[Optimizer]:
        """All that have been made and are still there."""
        return list(self._given)

    def of(self, optimizer: Optimizer) -> dict[str, str]:
        """Every option by name, as text."""
        return {_name(optimizer, *key): text for key, text in _options(optimizer)}

    def now(self, optimizer: Optimizer) -> tuple[dict[str, str], list[tuple[SourceLine, list[str]]]]:
        """The same, and the lines that gave it the options which it has now, each with their names."""
        options: dict[str, str] = {}
        found: dict[SourceLine, list[str]] = {}
        given, written = self._given.get(optimizer, {}), self._written.get(optimizer, {})
        for key, text in _options(optimizer):
            name = _name(optimizer, *key)
            options[name] = text
            given_text, line = given.get(key, ("", None))
            if given_text != text or key in written:
                line = written.get(key)
            if line is not None:
                found.setdefault(line, []).append(name)
        return options, list(found.items())

    def options(self) -> Options:
        """Every option of every optimizer."""
        return {(id(one), *key): text for one in self.optimizers for key, text in _options(one)}

    def written(self, line: SourceLine, before: Options) -> None:
        """The user's line `line` has written the options that differ from `before`: they are shown with it from now on."""
        for optimizer in self.optimizers:
            for key, text in _options(optimizer):
                if before.get((id(optimizer), *key), text) != text:
                    self._written.setdefault(optimizer, {})[key] = line

    def loaded(self, optimizer: Optimizer) -> SourceLine | None:
        """Where its state dict was loaded, if that was since its last step."""
        return self._loaded.get(optimizer)

    def stepped(self, optimizer: Optimizer) -> None:
        """It has stepped: its state is no longer what was loaded."""
        if self.are_loaded:
            self._loaded.pop(optimizer, None)
            self.are_loaded = bool(self._loaded)

    def grouped(self, optimizer: Optimizer) -> None:
        """A parameter group was added, by the constructor or later."""
        place = len(optimizer.param_groups) - 1
        self._note(optimizer, (option for option in _options(optimizer) if option[0][0] == place))

    def loads(self, optimizer: Optimizer) -> None:
        """A state dict was loaded."""
        line = user_line()
        if line is not None:
            self._loaded[optimizer] = line
            self.are_loaded = True
        self._note(optimizer, _options(optimizer))

    def scheduled(self, schedule: Any) -> None:  # noqa: ANN401 - a scheduler of whatever kind
        """A schedule has stepped: it may have written learning rates."""
        optimizer = getattr(schedule, "optimizer", None)
        if isinstance(optimizer, Optimizer):
            rates = (((place, SCHEDULED), group[SCHEDULED]) for place, group in enumerate(optimizer.param_groups))
            self._note(optimizer, ((key, _text(rate)) for key, rate in rates))

    def _note(self, optimizer: Optimizer, options: Iterable[tuple[tuple[int, str], str]]) -> None:
        line = user_line()
        given = self._given.setdefault(optimizer, {})
        written = self._written.get(optimizer, {}) if self._written else {}
        for key, text in options:
            written.pop(key, None)
            if line is not None and given.get(key, ("",))[0] != text:
                given[key] = text, line


def _after(owner: Any, name: str, observer: Any) -> None:  # noqa: ANN401
    method = getattr(owner, name)

    @functools.wraps(method)
    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        result = method(self, *args, **kwargs)
        observer(self)
        return result

    setattr(owner, name, followed)


def _options(optimizer: Optimizer) -> Iterable[tuple[tuple[int, str], str]]:
    for place, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            yield ((place, COUNT), str(len(value))) if name == "params" else ((place, name), _text(value))


def _text(value: Any) -> str:  # noqa: ANN401 - a number, a flag, a tuple, a tensor or an array of one element
    of_numpy = type(value).__module__ == "numpy" and getattr(value, "size", 0) == 1
    return repr(value.item() if of_numpy or (isinstance(value, Tensor) and value.numel() == 1) else value)


def _name(optimizer: Optimizer, place: int, name: str) -> str:
    return f"{name}[{place}]" if len(optimizer.param_groups) > 1 else name


def parameters_of(optimizer: Optimizer) -> Iterator[Tensor]:
    """What an optimizer steps."""
    return (parameter for group in optimizer.param_groups for parameter in group["params"])

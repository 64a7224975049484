"""Which modules of a model are in evaluation mode: those that compute something else in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from zlib import crc32

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from ..schema.source_line import SourceLine
from ..schema.step_records import Evaluating
from .mode_changes import ModeChanges

SHOWN = 3  # names
_MODE: Callable[[nn.Module], bool] = attrgetter("training")


class TrainingModes:
    """Of one model, whose modules are walked through again only where its parameters are listed anew."""

    def __init__(self, changes: ModeChanges | None = None) -> None:
        self._changes = changes
        self._listed: object = None
        self._named: dict[str, nn.Module] = {}
        self._found: tuple[int, int, SourceLine | None] = (
            0,
            0,
            None,
        )  # after how many changes, which modes, by which line

    def of(self, module: nn.Module, listed: object) -> Evaluating | None:
        """What is in evaluation mode; None for nothing. `listed` is the same object for as long as the modules are the same."""
        if self._listed is not listed:
            self._listed, self._named = listed, dict(_that_ask(module))
        modes = bytes(map(bool, map(_MODE, self._named.values())))
        if 0 not in modes:
            return None
        names = [name for name, in_training in zip(self._named, modes, strict=True) if not in_training]
        shown = tuple(names[:SHOWN]) if module.training else ("",)
        return Evaluating(shown, len(names), crc32(modes), self._line(names[0], crc32(modes)))

    def _line(self, name: str, modes: int) -> SourceLine | None:
        if self._changes is None:
            return None
        if self._found[:2] != (self._changes.count, modes):
            self._found = self._changes.count, modes, self._changes.line_of(self._named[name])
        return self._found[2]

    def forget(self) -> None:
        """Keep nothing alive."""
        self._listed, self._named = None, {}


def _that_ask(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules that ask for their mode, by name; none inside of a part that is not trained: an average, a teacher."""
    waiting, known = [("", module)], set[int]()
    while waiting:
        name, one = waiting.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        if _asks(one):
            yield name, one
        trained = [parameter.requires_grad for parameter in one.parameters()]
        if one is module or not trained or any(trained):
            below = [(f"{name}.{child}" if name else child, each) for child, each in one.named_children()]
            waiting += reversed(below)


def _asks(module: nn.Module) -> bool:
    """Whether the forward of a module does something else in evaluation mode, as far as its class tells."""
    match module:
        case _NormBase():
            return module.track_running_stats
        case _DropoutNd():
            return _is_on(module.p)
        case nn.RNNBase() | nn.MultiheadAttention():
            return _is_on(module.dropout)
        case nn.RReLU():
            return True
        case _:
            return "Drop" in type(module).__name__


def _is_on(probability: object) -> bool:
    """Whether a probability is not 0; one that is no number, as a subclass may have, counts as not 0."""
    return not isinstance(probability, int | float) or probability > 0

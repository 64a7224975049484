"""What runs inside a user's processes; loaded by `on_path/sitecustomize.py` as `_ddpdoctor_inside`. Imports no torch.

A feature is a module of this package, named in `DDPDOCTOR_AGENT`, with any of these functions, each called once a rank:

- `started(rank)`: in every Python process of the job, at its very start: it must cost next to nothing.
- `imported(torch_distributed, rank)`: `torch.distributed.distributed_c10d` has just run and nobody could import from it
  yet; the place to wrap its functions. Called in every process that imports it, before it is known whether it is a rank.
- `joining(rank)`: `init_process_group` is about to run; the rank may still hang in the rendezvous.
- `joined(rank)`: `init_process_group` has returned.

Any of them may raise: the feature is then given up with a line in the report, and the job never notices.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .post_import_hook import after_import
from .rank_process import Rank

C10D = "torch.distributed.distributed_c10d"


def start() -> None:
    """Start the features, and wait for `torch.distributed` to be imported in this process."""
    names = [name for name in os.environ["DDPDOCTOR_AGENT"].split(",") if name.isidentifier()]
    rank = Rank(os.environ["DDPDOCTOR_AGENT_DIR"])
    features = []
    for name in names:
        with rank.giving_up(f"loading {name}"), _Uncollected():
            features.append(importlib.import_module(f"{__name__}.{name}_feature"))
    for feature in features:
        _tell(feature, "started", rank, rank)
    after_import(C10D, lambda module: _attach(module, features, rank), rank)


def _attach(c10d: ModuleType, features: list[ModuleType], rank: Rank) -> None:
    for feature in features:
        _tell(feature, "imported", rank, c10d, rank)
    c10d.init_process_group = _observed(c10d, features, rank)  # type: ignore[attr-defined]


def _observed(c10d: ModuleType, features: list[ModuleType], rank: Rank) -> Callable[..., Any]:
    """`init_process_group` that tells the features when this process becomes a rank."""
    original: Callable[..., Any] = c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature is PyTorch's
        first = not rank.is_here
        with rank.giving_up("reading the rank's place"):
            rank.place(args, kwargs)
        if first:
            for feature in features:
                _tell(feature, "joining", rank, rank)
        result = original(*args, **kwargs)
        with rank.giving_up("reading the rank's place"):
            rank.joined(c10d.get_rank(), c10d.get_world_size())
        if first:
            for feature in features:
                _tell(feature, "joined", rank, rank)
        return result

    return init_process_group


def _tell(feature: ModuleType, event: str, rank: Rank, *arguments: object) -> None:
    function = getattr(feature, event, None)
    if function is not None:
        what = f"{feature.__name__.rpartition('.')[2].removesuffix('_feature')} ({event})"
        with rank.giving_up(what), _Uncollected():
            function(*arguments)


class _Uncollected:
    """A block in which no garbage is collected.

    The agent's modules make many objects and hardly any garbage. A full collection that comes due meanwhile looks through all
    objects of PyTorch, which takes several times as long as the start.
    """

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *_error: object) -> None:
        if self._collects:
            gc.enable()

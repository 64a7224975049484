"""Agents of several kinds in one process, one of them at work at a time: what each costs is measured in short turns."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.optim import optimizer as torch_optimizer

import ddpdoctor.agent.inside

INSIDE = Path(ddpdoctor.agent.inside.__file__).parent
HOOKS = (torch_optimizer._global_optimizer_pre_hooks, torch_optimizer._global_optimizer_post_hooks)


@dataclass
class Agent:
    """A copy of the agent with its own clock. The clock runs only while the agent works."""

    name: str
    changed: dict[tuple[Any, str], Any] = field(default_factory=dict)
    """What it put in the place of PyTorch's functions and methods, by owner and name."""
    hooks: tuple[dict[int, Any], ...] = ({}, {})
    """Its hooks on optimizers."""
    seconds: float = 0.0
    """How long it has been at work."""
    _since: float | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """PyTorch is as the agent made it; after the block as it was before."""
        before = {(owner, name): vars(owner)[name] for owner, name in self.changed}
        for (owner, name), value in self.changed.items():
            setattr(owner, name, value)
        for hooks, own in zip(HOOKS, self.hooks, strict=True):
            hooks.update(own)
        self._since = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - self._since
        self._since = None
        for (owner, name), value in before.items():
            setattr(owner, name, value)
        for hooks, own in zip(HOOKS, self.hooks, strict=True):
            for key in own:
                del hooks[key]

    def perf_counter(self) -> float:
        """The agent's clock: seconds at work."""
        return self.seconds + (time.perf_counter() - self._since if self._since is not None else 0.0)


@contextmanager
def without_hooks(module: nn.Module) -> Iterator[None]:
    """The hooks before the forward of `module` are not there: an agent's, where the job has none of its own."""
    hooks = module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs
    before = [dict(one) for one in hooks]
    for one in hooks:
        one.clear()
    yield
    for one, kept in zip(hooks, before, strict=True):
        one.update(kept)


def installed(name: str, features: str, directory: Path, environ: Mapping[str, str]) -> Agent:
    """The agent with `features`, as it begins in a rank, with the variables `environ`; not at work yet."""
    directory.mkdir(parents=True, exist_ok=True)
    os.environ.update(environ)
    package = _loaded(f"_ddpdoctor_inside_{name}")
    agent = Agent(name)
    if "verify_sync" in features:
        importlib.import_module(f"{package.__name__}.overhead_budget").time = agent  # type: ignore[attr-defined]
    before, hooks_before = _functions(), [dict(hooks) for hooks in HOOKS]
    rank = package.Rank(str(directory))
    parts = [importlib.import_module(f"{package.__name__}.{feature}_feature") for feature in features.split(",")]
    for part in parts:
        if hasattr(part, "imported"):
            part.imported(distributed_c10d, rank)
    for key, value in vars(distributed_c10d).items():  # the job imports from here after the agent has begun
        if before.get((dist, key)) is not None and before.get((dist, key)) is before.get((distributed_c10d, key)):
            setattr(dist, key, value)
    rank.place((), {})
    for event in ("joining", "joined"):
        if event == "joined":
            rank.joined(dist.get_rank(), dist.get_world_size())
        for part in parts:
            if hasattr(part, event):
                getattr(part, event)(rank)
    for (owner, key), value in before.items():
        now = vars(owner).get(key)
        if now is not value and now is not None:
            agent.changed[owner, key] = now
            setattr(owner, key, value)
    agent.hooks = tuple(_without(hooks, old) for hooks, old in zip(HOOKS, hooks_before, strict=True))
    for variable in environ:
        del os.environ[variable]
    return agent


def _loaded(name: str) -> ModuleType:
    spec = spec_from_file_location(name, INSIDE / "__init__.py", submodule_search_locations=[str(INSIDE)])
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def _functions() -> dict[tuple[Any, str], Any]:
    """Every function of PyTorch's modules and classes, by its owner and name."""
    owners: dict[int, Any] = {}
    for module in [one for name, one in sys.modules.items() if name.startswith("torch.") and one is not None]:
        owners[id(module)] = module
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__.startswith("torch"):
                owners[id(value)] = value
    return {
        (owner, name): value
        for owner in owners.values()
        for name, value in list(vars(owner).items())
        if callable(value) and not isinstance(value, type)
    }


def _without(hooks: dict[int, Any], old: Mapping[int, Any]) -> dict[int, Any]:
    new = {key: hook for key, hook in hooks.items() if key not in old}
    for key in new:
        del hooks[key]
    return new

"""What is what in a checkpoint: model tensors, BatchNorm statistics, optimizer state, and what each rank has of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from ddpdoctor.checkpoints.reader import Path_
from ddpdoctor.grouping import grouped

Part = Literal["parameter", "buffer", "optimizer state", "own", "other"]

STATISTICS = frozenset({"running_mean", "running_var", "num_batches_tracked"})  # free to differ outside a forward
_OWN = re.compile(r"(^|[^a-z])(rng|random|seed|sampler|data_?loader)", re.IGNORECASE)
_COMPILED, _WRAPPED = "_orig_mod.", "module."


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """What an entry of a checkpoint is."""

    part: Part
    """What it belongs to, which decides how it is compared."""
    name: str
    """By which it is compared: without `module.`, `_orig_mod.` and the key of the state dict."""


def named(paths: Mapping[Path_, bool]) -> tuple[dict[Path_, CheckpointEntry], tuple[str, ...]]:
    """The part and name of every leaf, and the prefixes left out of names; `paths` tells which leaves are tensors.

    A file is either a state dict, or a mapping in which state dicts stand beside other things. An optimizer is what has
    `param_groups`. `module.` (DistributedDataParallel) and `_orig_mod.` (torch.compile) are left out where they stand
    before every name.
    """
    optimizers = {path[: path.index("param_groups")] for path in paths if "param_groups" in path}
    found: dict[Path_, CheckpointEntry] = {}
    model = []
    for path, is_tensor in paths.items():
        root = next((path[:end] for end in range(len(path)) if path[:end] in optimizers), None)
        if root is not None and path[len(root)] in {"state", "param_groups"}:
            found[path] = CheckpointEntry("optimizer state", _subscripted(path))
        elif is_tensor:
            model.append(path)
        else:
            found[path] = CheckpointEntry("own" if _OWN.search(path[0]) else "other", _subscripted(path))
    nested = any(len(path) > 1 for path in model)
    for path in [path for path in model if nested and (len(path) == 1 or _OWN.search(path[0]))]:
        model.remove(path)
        found[path] = CheckpointEntry("own" if _OWN.search(path[0]) else "other", _subscripted(path))
    names, prefixes = _model_names(model)
    for path, name in names.items():
        statistics = name.rpartition(".")[2] in STATISTICS
        found[path] = CheckpointEntry("buffer" if statistics else "parameter", name)
    return {path: found[path] for path in paths}, prefixes


def _model_names(paths: Collection[Path_]) -> tuple[dict[Path_, str], tuple[str, ...]]:
    """`weight` for `("model", "module.weight")`; with two state dicts in the file, `model.weight` and `ema.weight`."""
    regions = grouped((path[0] if len(path) > 1 else "", path) for path in paths)
    names: dict[Path_, str] = {}
    prefixes: dict[str, None] = {}
    for region, inside in regions.items():
        bare = {path: ".".join(path[1:] if region else path) for path in inside}
        if any(_COMPILED in name for name in bare.values()):
            prefixes[_COMPILED] = None
            bare = {path: name.replace(_COMPILED, "") for path, name in bare.items()}
        if all(name.startswith(_WRAPPED) for name in bare.values()):
            prefixes[_WRAPPED] = None
            bare = {path: name.removeprefix(_WRAPPED) for path, name in bare.items()}
        names |= {path: f"{region}.{name}" if len(regions) > 1 and region else name for path, name in bare.items()}
    return names, tuple(prefixes)


def _subscripted(path: Path_) -> str:
    """`optimizer.state[3].exp_avg`, as one would write it in Python."""
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path).removeprefix(".")

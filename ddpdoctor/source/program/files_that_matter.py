"""Which files of a program do something that rules ask about: the others are read for their names only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ddpdoctor.source.names.dotted_names import makes_an_object
from ddpdoctor.source.program.project import Project, Source

_MATTERS = re.compile(
    r"distributed|[Rr]ank|RANK|DataLoader|backward|\bdist\b|DDP|FSDP|set_device|torch\.(?:load|save)|Sampler|device_count|MASTER_"
    r"|accelerat|[Ff]abric|spawn|Process|download|all_reduce|all_gather|broadcast|barrier|set_epoch|no_grad|synchronize|GradScaler"
    r"|__getitem__|makedirs|mkdir|random_split|train_test_split|wget"
    r"|\bsetattr\(|\.grad\b|\.item\(|BatchNorm|\bprint\(|tqdm|no_sync"
    r"|\bself\.(?:\w{1,30}_)?(?:model|net|network|module|policy)\("
    r"|requires_grad|register_buffer|state_dict|torch\.optim|clip_grad|add_module|^[ \t]+(?!self\b)[\w.]{1,60}\.\w{1,40} = nn\.",
    re.MULTILINE,
)
"""What a file must speak of to do such a thing by itself."""


def files_that_matter(sources: Iterable[Source], project: Project) -> set[str]:
    """The files that do such a thing, by themselves or by functions that they call in other files."""
    others = list(sources)
    found = {one.file for one in others if _MATTERS.search(one.text) is not None or _replaces_layers(one, project)}
    while more := {one.file for one in others if one.file not in found and _calls_into(one, found)}:
        found |= more
    return found


def _calls_into(source: Source, files: set[str]) -> bool:
    calls = (call for scope in source.scopes for call in scope.calls)
    return any(call.target is not None and call.target.file in files for call in calls)


def _replaces_layers(source: Source, project: Project) -> bool:
    """Whether a method of a model gives it a layer after it was made: `self.head = nn.Linear(width, classes)`."""
    return "nn" in source.text and any(
        key.startswith("self.") and makes_an_object(one.value) and project.is_a(scope.of_class, "Module")
        for scope in source.scopes
        if scope.of_class is not None and scope.name != "__init__"
        for key, given in scope.definitions.items()
        for one in given
    )

"""Layers that a model makes and that nothing names again: their parameters never get a gradient."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ddpdoctor.evidence.training_code import Place, UnusedPart
from ddpdoctor.source.dotted_names import dotted
from ddpdoctor.source.project import Project, Source
from ddpdoctor.source.scopes import Scope

_LAYERS = frozenset(
    {"Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding",
     "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm",
     "GroupNorm", "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder",
     "TransformerDecoderLayer"}
)  # fmt: skip
"""Layers of torch.nn with parameters."""
_MOST_NESTED = 3  # containers in each other
_ATTRIBUTE = re.compile(r"\.(\w+)|[\"'](\w+)[\"']")
_BY_OTHER_WAYS = re.compile(r"getattr|children\(|_modules|__dict__|vars\(|eval\(|exec\(")


@dataclass(eq=False)
class UnusedParts:
    """Finds layers that nothing uses."""

    project: Project
    """The files in which names are looked for."""
    near: dict[str, frozenset[str]]
    """By file, the files of all programs that it belongs to."""
    _names: dict[int, Counter[str]] = field(default_factory=dict)

    def of(self, source: Source) -> Iterator[UnusedPart]:
        """The layers of the models in one file that no other line of its programs names."""
        if "forward" not in source.text:
            return
        for cls in source.scopes:
            made = cls.functions.get("__init__") if cls.is_class else None
            if made is None or "forward" not in cls.functions or self.project.bases(cls) != ["torch.nn.Module"]:
                continue
            text = "\n".join(source.text.split("\n")[_first(cls) - 1 : _last(cls)])
            if not _BY_OTHER_WAYS.search(text):
                yield from self._of_class(source, cls, made)

    def _of_class(self, source: Source, cls: Scope, made: Scope) -> Iterator[UnusedPart]:
        for key, definitions in made.definitions.items():
            owner, _, name = key.partition(".")
            value = definitions[0].value
            if owner != "self" or len(definitions) != 1 or not isinstance(value, ast.Call):
                continue
            layer = self._layer(made, value)
            if layer and self._used(source.file)[name] == 1:
                file, line = source.place(definitions[0].line)
                place = Place(file=file, line=line, column=value.col_offset + 1, function=made.name)
                yield UnusedPart(place=place, cls=f"{cls.file}::{cls.name}", name=name, layer=f"nn.{layer}")

    def _layer(self, scope: Scope, node: ast.expr, depth: int = _MOST_NESTED) -> str:
        """The name in torch.nn of a layer with parameters, or of a Sequential that is written out with one in it; else empty."""
        full = (
            self.project.resolve(scope, dotted(node.func)) if isinstance(node, ast.Call) and dotted(node.func) else None
        )
        name = full.removeprefix("torch.nn.") if isinstance(full, str) and full.startswith("torch.nn.") else ""
        if name != "Sequential" or not isinstance(node, ast.Call) or not depth:
            return name if name in _LAYERS else ""
        return name if any(self._layer(scope, part, depth - 1) for part in node.args) else ""

    def _used(self, file: str) -> Counter[str]:
        """How often each attribute, or a string of that name, is written in the files near `file`."""
        near = self.near.setdefault(file, frozenset({file}))
        if id(near) not in self._names:
            counted = self._names[id(near)] = Counter()
            for each in near:
                counted.update(one or other for one, other in _ATTRIBUTE.findall(self.project.sources[each].text))
        return self._names[id(near)]


def _first(scope: Scope) -> int:
    return int(getattr(scope.node, "lineno", 1))


def _last(scope: Scope) -> int:
    return int(getattr(scope.node, "end_lineno", 1))

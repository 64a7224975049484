"""What nothing names again: layers that a model makes, whose parameters never get a gradient, and functions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ddpdoctor.evidence.training_code import Place, UnusedPart
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.project import Project, Source
from ddpdoctor.source.syntax.scopes import Scope

_LAYERS = frozenset(
    {"Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding",
     "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm",
     "GroupNorm", "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder",
     "TransformerDecoderLayer"}
)  # fmt: skip
"""Layers of torch.nn with parameters."""
_CONTAINERS = frozenset({"Sequential", "ModuleList"})
_MOST_NESTED = 3  # containers in each other, and classes above each other
_ATTRIBUTE = re.compile(r"\.(\w+)|[\"'](\w+)[\"']")
_BY_OTHER_WAYS = re.compile(
    r"getattr\(self|self\.(?:named_)?children\(|_modules|self\.__dict__|vars\(self|(?<![.\w])(?:eval|exec)\("
)


@dataclass(eq=False)
class UnusedParts:
    """Finds layers and functions that nothing uses."""

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
            family = self._family(cls) if cls.is_class else []
            if not any("forward" in each.functions for each in family):
                continue
            if not any(_BY_OTHER_WAYS.search(self._text(each)) for each in family):
                for each in family:
                    yield from self._of_class(each, cls)

    def is_function(self, scope: Scope) -> bool:
        """Whether a function of a module has no decorator, and a name that stands nowhere else in the files near it."""
        if scope.parent is None or scope.parent.parent is not None or scope.is_class or scope.decorators:
            return False
        near = self.near.get(scope.file, frozenset({scope.file}))
        named = re.compile(rf"\b{re.escape(scope.name)}\b")
        return sum(len(named.findall(self.project.sources[each].text)) for each in near) == 1

    def _family(self, cls: Scope) -> list[Scope]:
        """A model's class, and those of the program that it is derived from; none where a library's class is among them."""
        found = [cls]
        for each in found:
            bases = self.project.bases(each)
            own = [base for base in bases if isinstance(base, Scope)]
            if len(bases) != 1 or len(found) > _MOST_NESTED or (not own and bases != ["torch.nn.Module"]):
                return []
            found += own
        return found

    def _text(self, cls: Scope) -> str:
        return "\n".join(self.project.sources[cls.file].text.split("\n")[_first(cls) - 1 : _last(cls)])

    def _of_class(self, made_in: Scope, cls: Scope) -> Iterator[UnusedPart]:
        """The layers that the constructor of a class makes for a model of class `cls`."""
        made, source = made_in.functions.get("__init__"), self.project.sources[made_in.file]
        for key, definitions in made.definitions.items() if made is not None else ():
            owner, _, name = key.partition(".")
            value = definitions[0].value
            if made is None or owner != "self" or len(definitions) != 1 or not isinstance(value, ast.Call):
                continue
            layer = self._layer(made, value)
            if layer and self._used(cls.file)[name] == 1:
                file, line = source.place(definitions[0].line)
                place = Place(file=file, line=line, column=value.col_offset + 1, function=made.name)
                yield UnusedPart(place=place, cls=f"{cls.file}::{cls.name}", name=name, layer=f"nn.{layer}")

    def _layer(self, scope: Scope, node: ast.expr, depth: int = _MOST_NESTED) -> str:
        """The name in torch.nn of a layer with parameters, or of a container that is written out with one in it; else empty."""
        full = (
            self.project.resolve(scope, dotted(node.func)) if isinstance(node, ast.Call) and dotted(node.func) else None
        )
        name = full.removeprefix("torch.nn.") if isinstance(full, str) and full.startswith("torch.nn.") else ""
        if name not in _CONTAINERS or not isinstance(node, ast.Call) or not depth:
            return name if name in _LAYERS else ""
        return name if any(self._layer(scope, part, depth - 1) for part in _parts(node)) else ""

    def _used(self, file: str) -> Counter[str]:
        """How often each attribute, or a string of that name, is written in the files near `file`."""
        near = self.near.setdefault(file, frozenset({file}))
        if id(near) not in self._names:
            counted = self._names[id(near)] = Counter()
            for each in near:
                counted.update(one or other for one, other in _ATTRIBUTE.findall(self.project.sources[each].text))
        return self._names[id(near)]


def _parts(container: ast.Call) -> Iterator[ast.expr]:
    """What a container is written with: its arguments, or the items of the list that it is given."""
    for given in container.args:
        match given:
            case ast.List(elts=items):
                yield from items
            case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item):
                yield item
            case _:
                yield given


def _first(scope: Scope) -> int:
    return int(getattr(scope.node, "lineno", 1))


def _last(scope: Scope) -> int:
    return int(getattr(scope.node, "end_lineno", 1))

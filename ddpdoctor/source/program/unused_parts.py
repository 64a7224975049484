"""What nothing names again: layers that a model makes, whose parameters never get a gradient, and functions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ddpdoctor.evidence.training_code import Place, UnusedPart
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.names.framework_names import LIGHTNING
from ddpdoctor.source.program.project import Project, Source
from ddpdoctor.source.syntax.scopes import Scope

_LAYERS = frozenset(
    {"Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding",
     "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm",
     "GroupNorm", "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder",
     "TransformerDecoderLayer"}
)  # fmt: skip
"""Layers of torch.nn with parameters."""
_RUNS = frozenset({"forward", "training_step"})
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
        if "forward" not in source.text and "training_step" not in source.text:
            return
        for cls in source.scopes:
            family = self._family(cls) if cls.is_class else []
            if not any(_RUNS & each.functions.keys() for each in family):
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
        texts = (self.project.sources[each].text for each in near)
        return sum(len(named.findall(text)) for text in texts if scope.name in text) == 1

    def _family(self, cls: Scope) -> list[Scope]:
        """A model's class, and those of the program that it is derived from; none where a library's class is among them."""
        found = [cls]
        for each in found:
            bases = self.project.bases(each)
            own = [base for base in bases if isinstance(base, Scope)]
            if len(bases) != 1 or len(found) > _MOST_NESTED or not (own or _is_base(bases[0])):
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
                yield UnusedPart(place=place, cls=f"{cls.file}::{cls.name}", name=name, layer=layer)

    def _layer(self, scope: Scope, node: ast.expr, depth: int = _MOST_NESTED) -> str:
        """The name of a layer with parameters, a container with one in it, or what the program makes of them; else empty."""
        called = dotted(node.func) if isinstance(node, ast.Call) else ""
        meant = self.project.resolve(scope, called) if called else ""
        if isinstance(meant, Scope):
            return called if depth and self._makes_layers(meant, depth - 1) else ""
        name = meant.removeprefix("torch.nn.") if isinstance(meant, str) and meant.startswith("torch.nn.") else ""
        if name in _LAYERS:
            return f"nn.{name}"
        inside = _parts(node) if name in _CONTAINERS and isinstance(node, ast.Call) and depth else ()
        return f"nn.{name}" if any(self._layer(scope, part, depth - 1) for part in inside) else ""

    def _makes_layers(self, made: Scope, depth: int) -> bool:
        """Whether a function returns such a layer in its only `return`, or a class of models sets one up itself."""
        if not made.is_class:
            return len(made.returns) == 1 and bool(self._layer(made, made.returns[0][0], depth))
        setup = made.functions.get("__init__") if self._family(made) else None
        given = setup.definitions.items() if setup is not None else ()
        values = (one.value for key, each in given if key.startswith("self.") for one in each)
        return setup is not None and any(self._layer(setup, value, depth) for value in values if value is not None)

    def _used(self, file: str) -> Counter[str]:
        """How often each attribute, or a string of that name, is written in the files near `file`."""
        near = self.near.setdefault(file, frozenset({file}))
        if id(near) not in self._names:
            counted = self._names[id(near)] = Counter()
            for each in near:
                counted.update(one or other for one, other in _ATTRIBUTE.findall(self.project.sources[each].text))
        return self._names[id(near)]


def _is_base(name: Scope | str) -> bool:
    """Whether a class of a library is what models derive from, and makes no layers itself."""
    of_lightning = isinstance(name, str) and name.startswith(LIGHTNING) and name.endswith(".LightningModule")
    return name == "torch.nn.Module" or of_lightning


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

"""The command-line options that a program declares: to a parser, as the fields of a dataclass, or as parameters of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpdoctor.evidence.training_code import Option, Place
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.facts.guards import value_of
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import OPTION_MAKERS
from ddpdoctor.source.program.project import Source
from ddpdoctor.source.syntax.scopes import RawCall, Scope

_PARSES = frozenset(
    {"transformers.HfArgumentParser", "tyro.cli", "simple_parsing.parse", "draccus.parse", "jsonargparse.CLI",
     "jsonargparse.auto_cli", "fire.Fire", "typer.run"}
)  # fmt: skip
"""What makes an option of each field of a dataclass, or of each parameter of a function, that it is given."""
_LASTS = frozenset(name.rpartition(".")[2] for name in _PARSES)


def options_of(source: Source, values: Values) -> Iterator[Option]:
    """The options that a module declares."""
    for scope in source.scopes:
        for call in scope.calls:
            if call.last in OPTION_MAKERS:
                yield from _of_parser(source, values, scope, call)
            elif call.last in _LASTS and values.project.resolve(scope, dotted(call.node.func)) in _PARSES:
                yield from _of_parts(values, scope, call)


def _of_parser(source: Source, values: Values, scope: Scope, call: RawCall) -> Iterator[Option]:
    default = next((keyword.value for keyword in call.node.keywords if keyword.arg == "default"), None)
    for word in call.node.args:
        name = getattr(word, "value", None)
        if isinstance(name, str) and name.startswith("-"):
            file, line = source.place(call.node.lineno)
            yield Option(
                place=Place(file=file, line=line, column=call.node.col_offset + 1, function=scope.name),
                name=name,
                default=value_of(values, default, At(scope, call.order, call.block)),
                overwritten=_overwritten(values, name.lstrip("-").replace("-", "_"), source.file),
            )


def _of_parts(values: Values, scope: Scope, call: RawCall) -> Iterator[Option]:
    """The fields with a default of the dataclasses, and the parameters with one of the functions, that a call is given."""
    given = call.node.args[0] if call.node.args else None
    for each in given.elts if isinstance(given, ast.Tuple | ast.List) else [given]:
        meant = values.project.resolve(scope, dotted(each)) if each is not None and dotted(each) else None
        if not isinstance(meant, Scope):
            continue
        fields = {name: meant.definitions[name][0].value for name in meant.fields if meant.definitions.get(name)}
        for name, default in (fields if meant.is_class else meant.defaults).items():
            if default is None:
                continue
            file, line = values.project.sources[meant.file].place(default.lineno)
            yield Option(
                place=Place(file=file, line=line, column=default.col_offset + 1, function=meant.name),
                name=f"--{name}",
                default=value_of(values, default, At(meant, 0, meant.root)),
                overwritten=_overwritten(values, name, meant.file),
            )


def _overwritten(values: Values, name: str, file: str) -> bool:
    """Whether the program assigns to an attribute of this name."""
    near = values.code.near.get(file, frozenset())
    return any(
        key[1] == name and any(scope.file in near for scope, _, _ in found)
        for key, found in values.index.fields.items()
    )

"""The objects that a parser of the command line makes of dataclasses: `HfArgumentParser((Options, TrainingArguments))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpdoctor.evidence.code_values import PARSED, Kind, Origin
from ddpdoctor.source.dataflow.origins import At, Origins
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import only_value
from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Scope

_PARSE = frozenset({"parse_args_into_dataclasses", "parse_args_and_config", "parse_json_file", "parse_yaml_file"})
"""Methods of the parsers of transformers and of trl that give one object for each dataclass."""


def parsed(values: Values, node: ast.Call, index: int, at: At) -> Origins:
    """The object at a position of what such a parser gives; of one that makes a single object this one."""
    given = next(iter(node.args), None)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _PARSE:
        parser = node.func.value
        only = only_value(values, parser, at) if isinstance(parser, ast.Name | ast.Attribute) else (parser, at)
        if only is None or not isinstance(only[0], ast.Call) or not only[0].args:
            return ()
        given, at = only[0].args[0], only[1]
    return tuple(_objects(values, _listed(given), index, at))


def _listed(given: ast.expr | None) -> list[ast.expr]:
    if isinstance(given, ast.Tuple | ast.List):
        return given.elts
    return [given] if given is not None else []


def _objects(values: Values, classes: list[ast.expr], index: int, at: At) -> Iterator[Origin]:
    asked = classes[index] if 0 <= index < len(classes) else None
    name = dotted(asked) if asked is not None else ""
    meant = values.project.resolve(at.scope, name) if name else ""
    if isinstance(meant, Scope) and meant.is_class:
        yield Origin(kind=Kind.INSTANCE, text=PARSED, note=f"{meant.file}::{meant.name}")
    elif isinstance(meant, str) and names.FUNCTIONS.get(meant) == "make-folder":
        yield Origin(kind=Kind.OBJECT, text=meant, note="settings-of-run")

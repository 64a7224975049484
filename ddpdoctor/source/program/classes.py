"""The classes of a program, as code and other facts name them."""

from __future__ import annotations

import ast

from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.project import Project
from ddpdoctor.source.syntax.scopes import Scope


def class_meant(project: Project, node: ast.expr, scope: Scope) -> Scope | None:
    """The class of the program that an expression names: its attributes are used without an object."""
    name = dotted(node)
    meant = project.resolve(scope, name) if name and name not in {"self", "cls"} else None
    return meant if isinstance(meant, Scope) and meant.is_class else None


def class_named(project: Project, name: str) -> Scope | None:
    """The class of the program that an origin's note names, `file::Class`."""
    file, _, cls = name.partition("::")
    source = project.sources.get(file)
    return source.scopes[0].classes.get(cls) if source is not None else None


def is_trainer(project: Project, cls: Scope, hops: int = 4) -> bool:
    """Whether a class of the program is derived from the Trainer of transformers."""
    return any(
        names.FUNCTIONS.get(base) == "hf-trainer"
        if isinstance(base, str)
        else hops > 0 and is_trainer(project, base, hops - 1)
        for base in project.bases(cls)
    )

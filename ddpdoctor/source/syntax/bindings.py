"""How often a function binds each name."""

from __future__ import annotations

import ast
from collections import Counter


def bindings(function: ast.AST) -> Counter[str]:
    """How often each name is bound below a function, also by `global`, `nonlocal` and functions within it."""
    found: Counter[str] = Counter()
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found[name] += 1
            case ast.AugAssign(target=ast.Name(id=name)):
                found[name] += 1  # beside the name itself: it holds another value than what is written
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(dict.fromkeys(names, 2))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found[name] += 1
            case ast.MatchMapping(rest=str(name)):
                found[name] += 1
            case ast.alias(name=name, asname=other):
                found[other or name.partition(".")[0]] += 1
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] += node is not function
    return found

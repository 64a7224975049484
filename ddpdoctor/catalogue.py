"""Which rules and analyses there are: each is found by its file, and declares its inputs by annotation."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import typing
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from ddpdoctor import analysis, checks
from ddpdoctor.analysis.crashes.error_patterns import ErrorTable
from ddpdoctor.model import Finding, Rule


@dataclass(frozen=True, slots=True)
class Check:
    """A rule with the function that looks for it."""

    rule: Rule
    """What the findings of the function are."""
    function: Callable[..., Iterable[Finding]]
    """Takes the evidence in `inputs`, in this order."""
    inputs: tuple[Any, ...]
    """The annotations of its parameters: `PerRank[K]`, a kind of job or derived fact, each perhaps `| None`."""


@cache
def all_checks(*select: str) -> tuple[Check, ...]:
    """Every check in the package, in order of code; with `select` those of these codes, and no other file is imported.

    A check's file begins with its code.
    """
    found = []
    for name in _names(checks):
        if not select or has_prefix(name.rpartition(".")[2].upper(), select):
            module = importlib.import_module(name)
            found.append(Check(module.RULE, module.check, declared_inputs(module.check)))
    return tuple(sorted(found, key=lambda check: check.rule.code))


def all_rules() -> tuple[Rule, ...]:
    """Every rule in the package, in order of code."""
    return tuple(check.rule for check in all_checks())


def rule_called(word: str) -> Rule | None:
    """The rule with this code, `DDP305` or `305`, or with this name, in either case; None where there is none."""
    code, name = word.upper(), word.lower()
    return next((rule for rule in all_rules() if code in {rule.code, rule.code[3:]} or name == rule.name), None)


def nearest_name(word: str) -> str:
    """The code or the name of a rule that is most like a word; empty where none is like it.

    Codes of two families have nothing in common but digits: the nearest code is one of the family that the word begins with.
    """
    family = word.upper()[:4]
    codes = [rule.code for rule in all_rules() if len(word) > len(family) and rule.code.startswith(family)]
    names = [rule.name for rule in all_rules()]
    near = difflib.get_close_matches(word.upper(), codes, n=1) or difflib.get_close_matches(word.lower(), names, n=1)
    return near[0] if near else ""


@cache
def error_table() -> ErrorTable:
    """The texts of errors that all rules declare."""
    return ErrorTable.of(all_rules())


@cache
def analyses() -> dict[Any, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The kind that each analysis derives, with its function and what that declares."""
    found: dict[Any, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for name in _names(analysis):
        derive = getattr(importlib.import_module(name), "derive", None)
        if derive is not None:
            found[typing.get_type_hints(derive)["return"]] = (derive, declared_inputs(derive))
    return found


def inputs_of(kind: type) -> tuple[Any, ...]:
    """What the analysis that derives `kind` declares; nothing for a kind that is not derived."""
    return analyses()[kind][1] if kind in analyses() else ()


@cache
def kinds_read_by(inputs: tuple[Any, ...]) -> frozenset[Any]:
    """The kinds of evidence that a rule with these inputs looks at, by itself or through what is derived for it."""
    found: set[Any] = set()
    pending = [*inputs]
    while pending:
        kind = pending.pop()
        pending += [inner for inner in typing.get_args(kind) if inner is not type(None)]
        if kind not in found:
            found.add(kind)
            pending += inputs_of(kind)
    return frozenset(found)


def has_prefix(code: str, prefixes: Collection[str]) -> bool:
    """Whether a code begins with one of `prefixes`."""
    return any(code.startswith(prefix) for prefix in prefixes)


def _names(package: ModuleType) -> list[str]:
    """The names of the modules in a package."""
    return [module.name for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")]


def declared_inputs(function: Callable[..., Any]) -> tuple[Any, ...]:
    """The annotations of its parameters, in their order."""
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    return tuple(hints.values())

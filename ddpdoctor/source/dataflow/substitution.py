"""Expressions with others in place of names: bounded copies, each made once."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddpdoctor.source.names.dotted_names import dotted

MOST_COPIED = 200  # nodes of an expression that is copied: what helpers return has below 100
MOST_DEEP = 40  # levels of it: the evaluator gives up after 60, and a copy is made with one call per level


@dataclass(eq=False)
class Substitutions:
    """Copies of expressions in which others stand in place of names, each made once: known values go by a node's identity.

    Parts that hold none of the names are not copied. A call in the copy of a function's body is not replaced by another
    copy (`is_copied`): a function that calls itself with other literals would be copied without end.
    """

    copies: dict[tuple[object, ...], ast.expr | None] = field(default_factory=dict)
    """By what was copied and what was put in; None where it cannot be copied."""
    _names: dict[int, frozenset[str] | None] = field(default_factory=dict)
    _copied: dict[int, ast.AST] = field(default_factory=dict)

    def body(self, body: ast.expr, literals: Mapping[str, ast.Constant]) -> ast.expr | None:
        """The body of a function with literals in place of parameters; None where it is too large to be copied."""
        if not literals:
            return body
        if self.names_in(body) is None:
            return None
        key = ("body", id(body), *((name, type(one.value), one.value) for name, one in sorted(literals.items())))
        if key not in self.copies:
            self.copies[key] = self._marked(_replaced(body, literals), body)
        return self.copies[key]

    def element(self, node: ast.expr, index: int) -> ast.expr | None:
        """What `a, b = (int(os.environ[key]) for key in ("RANK", "LOCAL_RANK"))` gives a target; also of `map(int, (x, y))`."""
        if not isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.Call):
            return None
        key = ("element", id(node), index)
        if key not in self.copies:
            found = _element(node, index)
            self.copies[key] = self._marked(found, node) if self.is_copied(node) else found
        return self.copies[key]

    def item(self, node: ast.DictComp, key: str) -> ast.expr | None:
        """What `{name: use(name, each) for name, each in table.items()}` holds under a key; None of another comprehension."""
        asked = ("item", id(node), key)
        if asked not in self.copies:
            found = _item(node, key)
            self.copies[asked] = self._marked(found, node) if self.is_copied(node) else found
        return self.copies[asked]

    def call(self, node: ast.expr, function: ast.expr, of: ast.Call | None = None) -> ast.Call:
        """A call of another function, with the arguments of `of`, that stands where `node` does."""
        key = ("call", id(node), id(function))
        found = self.copies.get(key)
        if not isinstance(found, ast.Call):
            found = ast.Call(func=function, args=of.args if of else [], keywords=of.keywords if of else [])
            self.copies[key] = ast.copy_location(found, node)
            if of is not None or self.is_copied(node):
                self._copied[id(found)] = found
        return found

    def is_copied(self, node: ast.expr) -> bool:
        """Whether a node is a part of a copy, and not of the program."""
        return id(node) in self._copied

    def names_in(self, node: ast.expr) -> frozenset[str] | None:
        """The names and dotted names that an expression uses; None where it is too large to be copied."""
        if id(node) not in self._names:
            used = frozenset(_name(part) for part in ast.walk(node)) if is_small(node) else None
            self._names[id(node)] = used
        return self._names[id(node)]

    def _marked(self, copied: ast.expr | None, original: ast.expr) -> ast.expr | None:
        if copied is not None and copied is not original:
            before = {id(part) for part in ast.walk(original)}
            self._copied.update((id(part), part) for part in ast.walk(copied) if id(part) not in before)
        return copied


def is_small(node: ast.expr) -> bool:
    """Whether an expression has few enough nodes and levels to be copied; counted without recursion."""
    level: list[ast.AST] = [node]
    count = 0
    for _ in range(MOST_DEEP):
        count += len(level)
        if not level or count > MOST_COPIED:
            break
        level = [part for each in level for part in ast.iter_child_nodes(each)]
    return not level and count <= MOST_COPIED


def _element(node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.Call, index: int) -> ast.expr | None:
    match node:
        case (
            ast.ListComp(elt=part, generators=[each])
            | ast.GeneratorExp(elt=part, generators=[each])
            | ast.DictComp(value=part, generators=[each])
        ) if not each.ifs:
            item = _element_at(each.iter, index) if isinstance(each.target, ast.Name) and is_small(part) else None
            return _replaced(part, {dotted(each.target): item}) if item is not None else None
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name() as function, listed]):
            item = _element_at(listed, index)
            written = ast.Call(func=function, args=[item], keywords=[]) if item is not None else None
            return ast.copy_location(written, node) if written is not None else None
    return None


def _item(node: ast.DictComp, key: str) -> ast.expr | None:
    match node.generators:
        case [
            ast.comprehension(
                target=ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=each)]),
                iter=ast.Call(func=ast.Attribute(value=table, attr="items"), args=[]),
                ifs=[],
            )
        ] if is_small(node.value):
            literal = ast.copy_location(ast.Constant(value=key), node)
            held = ast.copy_location(ast.Subscript(value=table, slice=literal, ctx=ast.Load()), node)
            return _replaced(node.value, {name: literal, each: held})
    return None


def _element_at(node: ast.expr, index: int) -> ast.expr | None:
    listed: Sequence[ast.expr] = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    return listed[index] if 0 <= index < len(listed) else None


def _replaced(node: ast.expr, by: Mapping[str, ast.expr]) -> ast.expr:
    """An expression with others in place of names."""
    assigned = {part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}
    found = _with(node, _except(by, assigned))
    assert isinstance(found, ast.expr)
    return found


def _with(node: ast.AST, by: Mapping[str, ast.expr]) -> ast.AST:
    """A node with others in place of names; the node itself where it holds none of them."""
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and (name := _name(node)) in by:
        put = by[name]
        return ast.copy_location(ast.Constant(value=put.value), node) if isinstance(put, ast.Constant) else put
    by = _except(by, _bound(node))
    if not by:
        return node
    changed: dict[str, object] = {}
    for field_name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST) and (one := _with(value, by)) is not value:
            changed[field_name] = one
        elif isinstance(value, list):
            listed = [_with(one, by) if isinstance(one, ast.AST) else one for one in value]
            if any(one is not other for one, other in zip(listed, value, strict=True)):
                changed[field_name] = listed
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **changed}), node) if changed else node


def _bound(node: ast.AST) -> set[str]:
    """The names that a lambda or a comprehension gives a meaning of its own."""
    match node:
        case ast.Lambda(args=parameters):
            return {part.arg for part in ast.walk(parameters) if isinstance(part, ast.arg)}
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            targets = (part for each in node.generators for part in ast.walk(each.target))
            return {part.id for part in targets if isinstance(part, ast.Name)}
    return set()


def _except(by: Mapping[str, ast.expr], bound: set[str]) -> Mapping[str, ast.expr]:
    """The replacements that neither replace nor use one of these names."""
    if not bound:
        return by
    return {
        name: put
        for name, put in by.items()
        if name.partition(".")[0] not in bound
        and not any(isinstance(part, ast.Name) and part.id in bound for part in ast.walk(put))
    }


def _name(node: ast.AST) -> str:
    return dotted(node) if isinstance(node, ast.Name | ast.Attribute) else ""

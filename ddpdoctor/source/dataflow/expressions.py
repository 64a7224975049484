"""What each form of expression can be, from what its parts can be."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.attribute_access import attribute
from ddpdoctor.source.dataflow.call_results import result
from ddpdoctor.source.dataflow.chosen_values import truth
from ddpdoctor.source.dataflow.conditions import chosen, compared, either_or_both, negated
from ddpdoctor.source.dataflow.data_sets import of_huggingface
from ddpdoctor.source.dataflow.held_by_names import held_under
from ddpdoctor.source.dataflow.lengths import UNEVEN, at_drawn, is_alike, is_certain_rank, is_even, of_indices
from ddpdoctor.source.dataflow.literals import decided_by, known_literal
from ddpdoctor.source.dataflow.object_attributes import ARGUMENT_OBJECTS
from ddpdoctor.source.dataflow.origins import TAINTS, At, Origins, environment, joined, note_of
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import is_environment, items_of, of_any_key, place_of
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.divisions import numbered
from ddpdoctor.source.syntax.scopes import Block, Scope

MOST_ITEMS = 12  # assignments to one key of a module's dict that are looked at
_SIZES = frozenset({Kind.WORLD_SIZE, Kind.DEVICE_COUNT})
_ASKS_FOR_A_FOLDER = frozenset({"exists", "is_dir", "isdir"})


def evaluate(values: Values, node: ast.expr, at: At) -> Iterable[Origin]:
    """The alternatives of one expression."""
    if values.context is not None and isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
        decided = decided_by(values, node, at)
        if decided is not None:
            return (Origin(kind=Kind.CONSTANT, text=repr(decided)),)
    match node:
        case ast.Call():
            return result(values, node, at)
        case ast.Name(id=name):
            return _named(values, name, at)
        case ast.Attribute():
            return attribute(values, node, at)
        case ast.Subscript():
            return _item(values, node, at)
        case ast.Compare(left=left, comparators=others):
            return compared(values, node, [left, *others], at)
        case ast.BoolOp(values=parts):
            return either_or_both(values, node, parts, at)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return tuple(
                negated(origin)
                for origin in truth(values.of(operand, at))
                if origin.kind in TAINTS or origin.kind in {Kind.FUNCTION, Kind.SOME_RANKS}
            )
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return (Origin(kind=Kind.CONSTANT, text=f"-{value!r}"),)
        case ast.UnaryOp(operand=operand):
            return values.of(operand, at)
        case ast.BinOp():
            return _binary(values, node, at)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            decided = decided_by(values, test, at) if values.context is not None else None
            if decided is not None:
                return values.of(body if decided else orelse, at)
            return chosen(values, test, body, orelse, at)
        case ast.JoinedStr(values=parts):
            return _text(values, node, parts, at)
        case (
            ast.FormattedValue(value=value)
            | ast.Starred(value=value)
            | ast.Await(value=value)
            | ast.NamedExpr(value=value)
        ):
            return values.of(value, at)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [origin for part in parts for origin in values.of(part, at)]
        case ast.Set():
            return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
        case ast.Dict(values=parts):
            found = [origin for part in parts for origin in values.of(part, at)]
            return [one for one in found if one.kind in {Kind.LOCAL, Kind.SHARED} or one.note == "state-dict"]
        case ast.ListComp(elt=part, generators=generators) | ast.GeneratorExp(elt=part, generators=generators):
            return _comprehended(values, part, generators, at)
        case ast.DictComp(value=part, generators=generators):
            kinds = {Kind.LOCAL, Kind.SHARED}
            return [origin for origin in _comprehended(values, part, generators, at) if origin.kind in kinds]
        case ast.SetComp():
            return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
    return ()


def _of_module(values: Values, key: str, item: str, at: At) -> Origins:
    """What the functions of a module assign to a key of its dict."""
    meant = values.project.resolve(at.scope, key)
    if not isinstance(meant, tuple):
        return ()
    module, name = meant
    given = values.index.items.get((module.file, f"{name}[{item!r}]"), ())[:MOST_ITEMS]
    return joined(origin for scope, one in given for origin in values.defined(f"{name}[{item!r}]", one, scope))


def _named(values: Values, name: str, at: At) -> Origins:
    found = held_under(values, name, at)
    if not found and name in rank_names.RANK_NAMES and not _defined_here(at.scope, name):
        return (Origin(kind=rank_names.RANK_NAMES[name], text=name, note=note_of(name)),)
    return found


def _defined_here(scope: Scope, name: str) -> bool:
    at: Scope | None = scope
    while at is not None:
        if name in at.definitions or name in at.functions or name in at.classes or name in at.parameters:
            return True
        at = at.parent
    return False


def _item(values: Values, node: ast.Subscript, at: At) -> Origins:
    key = dotted(node.value)
    if is_environment(values, node.value, at) and (variable := known_literal(values, node.slice, at)) is not None:
        return environment(str(variable.value))
    held = known_literal(values, node.slice, at)
    word = held.value if held is not None else None
    if isinstance(word, str):
        item = f"{key}[{word!r}]"
        if key and item in at.scope.definitions and (found := held_under(values, item, at)):
            return found
        if key and (found := _of_module(values, key, word, at)):
            return found
        held_in = isinstance(node.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        written = items_of(values, node.value, at) if held_in else None
        if written is not None and word in written:
            return values.of(*written[word])
        if key.rpartition(".")[2] in ARGUMENT_OBJECTS and word in rank_names.RANK_NAMES:
            return (Origin(kind=rank_names.RANK_NAMES[word], text=item, note=note_of(word)),)
    elif isinstance(word, int) and (part := place_of(values, node.value, word, at)) is not None:
        return values.of(*part)
    elif (
        held is None
        and isinstance(node.slice, ast.Name | ast.Attribute)
        and (any_of := of_any_key(values, node.value, at))
    ):
        return any_of
    found = tuple(
        origin
        for origin in values.of(node.value, at)
        if origin.kind in {Kind.LOCAL, Kind.SHARED, Kind.OBJECT, Kind.UNORDERED, Kind.CPU_TENSOR}
    )
    if isinstance(word, str):
        found += of_huggingface(values.of(node.value, at))
        found = tuple(one for one in found if one.kind is not Kind.LOCAL or one.made)  # a clock under another key
    if isinstance(node.slice, ast.Slice):
        parts = (node.slice.lower, node.slice.upper, node.slice.step)
        ranks = [origin for part in parts for origin in values.of(part, at) if origin.kind in RANK_KINDS]
        note = "even" if is_alike(node.slice, at.scope) or is_even(values, node.value, at) else "part"
        if (
            not ranks and node.slice.upper is not None
        ):  # `files[rank::world_size][:per_rank]` is equally long on all ranks
            found = tuple(replace(one, note="even") if one.note == "part" else one for one in found)
            sized = (one for one in values.of(node.slice.upper, at) if one.kind is Kind.WORLD_SIZE)
            found += tuple(replace(one, note="derived") for one in sized)
        found += tuple(replace(origin, kind=Kind.LOCAL, note=note) for origin in ranks[:1])
        found += tuple(at_drawn(origin for part in parts for origin in values.of(part, at)))
    elif isinstance(node.slice, ast.Compare) and any(one.kind is Kind.LOCAL for one in values.of(node.slice, at)):
        found = tuple(replace(origin, note="picked") if origin.kind is Kind.LOCAL else origin for origin in found)
    elif not isinstance(node.slice, ast.Constant):  # `data[torch.randperm(len(data))]`
        indices = values.of(node.slice, at)
        own = (replace(one, kind=Kind.LOCAL, note="own") for one in indices if is_certain_rank(one))
        found = joined(
            [*found, *(one for one in indices if one.note == "drawn"), *of_indices(indices), *at_drawn(indices), *own]
        )
    return found


def _binary(values: Values, node: ast.BinOp, at: At) -> Iterator[Origin]:
    left, right = values.of(node.left, at), values.of(node.right, at)
    if isinstance(node.op, ast.Mod) and any(origin.kind in RANK_KINDS for origin in left):
        whole = any(origin.kind is Kind.WORLD_SIZE for origin in right)
        for origin in left:
            if origin.kind in RANK_KINDS:
                yield replace(origin, kind=Kind.RANK if whole else Kind.LOCAL_RANK, note="" if whole else "remainder")
        return
    if isinstance(node.op, ast.FloorDiv) and any(origin.kind in RANK_KINDS for origin in left):
        yield from (replace(origin, kind=Kind.RANK, note="") for origin in left if origin.kind in RANK_KINDS)
        return
    plain = _is_text(node.left) and isinstance(node.op, ast.Add | ast.Mod)
    divides = isinstance(node.op, ast.Div)
    for origin in (*left, *(one for one in right if one.kind is not Kind.DEVICE_COUNT or not divides)):
        if origin.kind in RANK_KINDS:
            yield origin if plain else replace(origin, kind=Kind.RANK, note="")
        elif origin.kind in TAINTS and origin.kind is not Kind.WORLD_SIZE:
            yield origin
    if isinstance(node.op, ast.Add):  # `list(encoder.parameters()) + list(decoder.parameters())`
        yield from (one for one in left + right if one.note == "parameters")
    if isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
        yield from (one for one in left if one.note == "load")  # `checkpoint["epoch"] + 1`
        yield from (replace(one, note="number", made="") for one in left if _is_listed(one))
    if isinstance(node.op, ast.Div):
        for origin in right:
            if origin.kind in _SIZES and origin.note in {"", "multiplies"}:
                yield replace(origin, note="divides")
    elif not isinstance(node.op, ast.Mult):  # `steps // world_size` is another number, which only depends on it
        yield from (replace(one, note="derived") for one in left + right if one.kind is Kind.WORLD_SIZE)
    if isinstance(node.op, ast.Mult):
        sizes = (origin for origin in left + right if origin.kind is Kind.WORLD_SIZE)
        yield from (one if one.note == "divides" else replace(one, note="multiplies") for one in sizes)
        if all(any(one.note == "argument" for one in side) for side in (left, right)):
            yield Origin(kind=Kind.UNKNOWN, text=values.text(node, at.scope))
    path = isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant | ast.JoinedStr)
    if (path or _makes_a_text(node)) and not any(one.kind in TAINTS for one in left + right):
        yield Origin(kind=Kind.UNKNOWN, text=values.text(node, at.scope))


def _makes_a_text(node: ast.BinOp) -> bool:
    """Whether a text is put together: `"step%d" % n`, `folder + "/last.pt"`."""
    if isinstance(node.op, ast.Add):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node.op, ast.Mod) and _is_text(node.left)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_listed(origin: Origin) -> bool:
    """Whether a value is an entry of a folder, or how many there are."""
    return origin.note in {"item", "number"} and origin.from_listing


def _text(values: Values, node: ast.JoinedStr, parts: list[ast.expr], at: At) -> Iterator[Origin]:
    found = [origin for part in parts if isinstance(part, ast.FormattedValue) for origin in values.of(part, at)]
    if not any(isinstance(part, ast.FormattedValue) for part in parts):
        yield Origin(kind=Kind.CONSTANT, text=values.text(node, at.scope))
        return
    if (test := _asked_in_turn(parts, at) or _asked_until_free(parts, at)) is not None:
        yield Origin(kind=Kind.LOCAL, text=values.text(test, at.scope), note="number")
    text = _with_constants(values, node, parts, at)
    if found and "{" not in text:
        yield Origin(kind=Kind.CONSTANT, text=text)
        return
    tainted = any(origin.kind in TAINTS for origin in found)
    for origin in found:
        if origin.kind in TAINTS:
            yield origin
        elif origin.kind is not Kind.CONSTANT or not tainted:
            yield Origin(kind=Kind.UNKNOWN, text=text)
    if not found:
        yield Origin(kind=Kind.UNKNOWN, text=text)


def _asked_in_turn(parts: list[ast.expr], at: At) -> ast.expr | None:
    """The test by which a loop over numbers ends at the first name that is free: `if not os.path.exists(name): break`."""
    block: Block | None = at.block
    while block is not None and block.form != "for":
        block = block.parent
    loop = block.node if block is not None else None
    if block is None or not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    counts = dotted(loop.iter.func).rpartition(".")[2] in {"range", "count"}
    numbers = {dotted(part.value) for part in parts if isinstance(part, ast.FormattedValue)}
    if not counts or dotted(loop.target) not in numbers:
        return None
    for _, ended in block.ended:
        match ended.test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=asked) as test) if ended.ends == "break":
                if dotted(asked).rpartition(".")[2] in _ASKS_FOR_A_FOLDER:
                    return test
    return None


def _asked_until_free(parts: list[ast.expr], at: At) -> ast.expr | None:
    """The test of a `while` that counts to the first name that is free: `while (base / f"run{n}").exists(): n += 1`."""
    for part in parts:
        key = dotted(part.value) if isinstance(part, ast.FormattedValue) else ""
        for definition in at.scope.definitions.get(key, ()):
            loop = definition.block.node
            if definition.form != "augment" or definition.block.form != "while" or not isinstance(loop, ast.While):
                continue
            asked = loop.test
            named = any(isinstance(one, ast.Name | ast.Attribute) and dotted(one) == key for one in ast.walk(asked))
            if (
                named
                and isinstance(asked, ast.Call)
                and isinstance(asked.func, ast.Attribute)
                and asked.func.attr in _ASKS_FOR_A_FOLDER
            ):
                return asked
    return None


def _with_constants(values: Values, node: ast.JoinedStr, parts: list[ast.expr], at: At) -> str:
    """A formatted string as written, with constants in place of the names that hold them."""
    text = values.text(node, at.scope)
    for part in parts:
        if isinstance(part, ast.FormattedValue) and (name := dotted(part.value)):
            found = values.of(part.value, at)
            if len(found) == 1 and found[0].kind is Kind.CONSTANT:
                text = text.replace(f"{{{name}}}", found[0].text.strip("\"'"))
    return text


def _comprehended(values: Values, part: ast.expr, generators: list[ast.comprehension], at: At) -> Iterator[Origin]:
    picked = any(
        one.kind is Kind.LOCAL for test in generators[0].ifs if _is_of_values(test) for one in values.of(test, at)
    )
    ranks = (one for test in generators[0].ifs for one in values.of(test, at) if one.kind in RANK_KINDS)
    mine = next((one for one in ranks if one.note != "uncertain"), None)
    if mine is not None:  # `[f for i, f in enumerate(files) if i % world_size == rank]`
        even = is_even(values, numbered(generators[0].iter), at)
        yield replace(mine, kind=Kind.LOCAL, note="even" if even else "part")
    yield from (one for one in values.of(generators[0].iter, at) if one.kind is Kind.LOCAL and one.note in UNEVEN)
    for origin in values.of(part, at):
        if origin.kind in TAINTS:
            yield replace(origin, note="picked") if picked and origin.kind is Kind.LOCAL else origin
    same = dotted(part) != "" and dotted(part) in {dotted(one) for one in _parts(generators[0].target)}
    for origin in values.of(generators[0].iter, at):
        if origin.kind is Kind.UNORDERED or (same and origin.note == "parameters"):
            yield origin


def _parts(target: ast.expr) -> list[ast.expr]:
    """The names that a loop binds."""
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _is_of_values(test: ast.expr) -> bool:
    """Whether a test looks at values, and not at keys."""
    return any(
        isinstance(one, ast.Compare) and not isinstance(one.ops[0], ast.In | ast.NotIn) for one in ast.walk(test)
    )

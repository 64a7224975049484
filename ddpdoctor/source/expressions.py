"""What each form of expression can be, from what its parts can be."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ddpdoctor.evidence.training_code import LISTINGS, RANK_KINDS, Kind, Origin
from ddpdoctor.source.reaching import END, reaching
from ddpdoctor.source.scopes import Scope
from ddpdoctor.source.torch_names import RANK_NAMES, TRAINERS
from ddpdoctor.source.values import ARGUMENT_OBJECTS, TAINTS, At, Origins, Values, environment, joined, note_of
from ddpdoctor.source.walk import dotted

_OBJECTS = frozenset(
    {Kind.MODEL, Kind.WRAPPED, Kind.BARE, Kind.LOADER, Kind.SAMPLER, Kind.DATASET, Kind.OBJECT, Kind.INSTANCE}
)


_SAME_FOR_ALL = frozenset(
    {"shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "grad_fn", "is_leaf", "layout", "is_sparse"}
)
"""What ranks have alike of their batches and losses."""


def evaluate(values: Values, node: ast.expr, at: At) -> Iterable[Origin]:
    """The alternatives of one expression."""
    match node:
        case ast.Constant(value=value):
            return (Origin(kind=Kind.CONSTANT, text=repr(value)),)
        case ast.Name(id=name):
            return _named(values, name, at)
        case ast.Attribute():
            return _attribute(values, node, at)
        case ast.Call():
            from ddpdoctor.source.calls import result

            return result(values, node, at)
        case ast.Subscript():
            return _item(values, node, at)
        case ast.Compare(left=left, comparators=others):
            return _compared(values, node, [left, *others], at)
        case ast.BoolOp(values=parts):
            return _tests(values, node, parts, at)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return tuple(_turned(origin) for origin in values.of(operand, at) if origin.kind in TAINTS)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return (Origin(kind=Kind.CONSTANT, text=f"-{value!r}"),)
        case ast.UnaryOp(operand=operand):
            return values.of(operand, at)
        case ast.BinOp():
            return _binary(values, node, at)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _either(values, test, body, orelse, at)
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
            return [origin for origin in found if origin.kind in {Kind.LOCAL, Kind.SHARED}]
        case ast.ListComp(elt=part, generators=generators) | ast.GeneratorExp(elt=part, generators=generators):
            return _comprehended(values, part, generators, at)
        case ast.DictComp(value=part, generators=generators):
            kinds = {Kind.LOCAL, Kind.SHARED}
            return [origin for origin in _comprehended(values, part, generators, at) if origin.kind in kinds]
        case ast.SetComp():
            return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
    return ()


def _named(values: Values, name: str, at: At) -> Origins:
    found = values.name(name, at)
    if not found and name in RANK_NAMES and not _defined_here(at.scope, name):
        return (Origin(kind=RANK_NAMES[name], text=name, note=note_of(name)),)
    return found


def _defined_here(scope: Scope, name: str) -> bool:
    at: Scope | None = scope
    while at is not None:
        if name in at.definitions or name in at.functions or name in at.classes or name in at.parameters:
            return True
        at = at.parent
    return False


def _attribute(values: Values, node: ast.Attribute, at: At) -> Origins:
    key = dotted(node)
    if output := _output_of_engine(values, node, at):
        return output
    if key:
        assigned = at.scope.definitions.get(key)
        if assigned:
            _, always = reaching(assigned, at.order, at.block)
            if always:
                return values.name(key, at)
        meant = values.project.resolve(at.scope, key)
        if isinstance(meant, tuple):
            module, name = meant
            return values.name(name, At(module, END, module.root))
        if isinstance(meant, Scope):
            return () if meant.is_class else (Origin(kind=Kind.FUNCTION, text=key),)
        if meant.startswith("torch."):
            return ()
        cls = _class_of(values, node.value, at)
        if cls is not None and (found := values.attribute(cls, node.attr)):
            return joined([*found, *values.field(cls.name, node.attr, at.scope.file)])
    return _of_object(values, node, key, at)


def _output_of_engine(values: Values, node: ast.Attribute, at: At) -> Origins:
    """What `engine.state.output` holds in a handler of Ignite: what the engine's step function returns."""
    if node.attr != "output" or not dotted(node.value).endswith(".state"):
        return ()
    for decorator in at.scope.decorators:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        engine, _, how = dotted(called).rpartition(".")
        around = at.scope.parent
        if how != "on" or not engine or around is None:
            continue
        for definition in around.definitions.get(engine, ()):
            made = definition.value
            if isinstance(made, ast.Call) and dotted(made.func).endswith("Engine") and made.args:
                step = values.project.resolve(around, dotted(made.args[0]))
                if isinstance(step, Scope) and not step.is_class:
                    return values.returned(step)
    return ()


def _class_of(values: Values, node: ast.expr, at: At) -> Scope | None:
    """The class of the program that an expression names: its attributes are used without an object."""
    name = dotted(node)
    meant = values.project.resolve(at.scope, name) if name and name not in {"self", "cls"} else None
    return meant if isinstance(meant, Scope) and meant.is_class else None


def _of_object(values: Values, node: ast.Attribute, key: str, at: At) -> Origins:
    found: list[Origin] = []
    owner = node.value
    of_owner: Origins = ()
    if isinstance(owner, ast.Name) and owner.id in {"self", "cls"}:
        cls = at.scope.of_class
        if cls is not None:
            found += values.attribute(cls, node.attr)
    else:
        of_owner = values.of(owner, at)
        shared = [origin for origin in of_owner if origin.kind is Kind.SHARED]
        local = [origin for origin in of_owner if origin.kind is Kind.LOCAL]
        for origin in (
            shared or local or of_owner
        ):  # what this object was given counts, not what others of its class were
            found += _from_origin(values, origin, node.attr)
    if not found:
        tail = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
        found += values.field(tail, node.attr, at.scope.file) if tail and tail != "self" else ()
        if not found and isinstance(owner, ast.Name) and owner.id in TRAINERS and not of_owner:
            found += values.of_any(node.attr, at.scope.file)
    if not found and node.attr in RANK_NAMES:
        return (Origin(kind=RANK_NAMES[node.attr], text=key or node.attr, note=note_of(node.attr)),)
    return joined(found)


def _from_origin(values: Values, origin: Origin, name: str) -> Origins:
    if origin.kind in {Kind.INSTANCE, Kind.MODEL, Kind.DATASET} and origin.note:
        cls = class_named(values, origin.note)
        return values.attribute(cls, name) if cls is not None else ()
    if origin.kind is Kind.WRAPPED and name == "module":
        return (replace(origin, kind=Kind.BARE),)
    if origin.kind is Kind.LOADER and name in {"sampler", "batch_sampler", "dataset"} and origin.made in values.made:
        call, scope = values.made[origin.made]
        given = next((keyword.value for keyword in call.node.keywords if keyword.arg == name), None)
        return values.of(given, At(scope, call.order, call.block)) if given is not None else ()
    if origin.note in {"parameters", "gradients"} and name in {"grad", "data"}:
        return (replace(origin, note="gradients" if name == "grad" else origin.note),)
    if origin.kind is Kind.SAMPLER and name in {"sampler", "batch_sampler"}:
        return (origin,)
    if origin.kind is Kind.LOCAL and origin.made and name in _SAME_FOR_ALL:
        return ()
    if origin.kind in {Kind.LOCAL, Kind.SHARED}:
        return (origin,)
    if name in {"iloc", "loc", "values", "index"} and (origin.note == "drawn" or origin.kind is Kind.UNORDERED):
        return (origin,)
    return ()


def class_named(values: Values, name: str) -> Scope | None:
    """The class of the program that an origin's note names, `file::Class`."""
    file, _, cls = name.partition("::")
    source = values.project.sources.get(file)
    return source.scopes[0].classes.get(cls) if source is not None else None


def _item(values: Values, node: ast.Subscript, at: At) -> Origins:
    key = dotted(node.value)
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        if key.endswith("environ") or _is_environ(key, at):
            return environment(node.slice.value)
        item = f"{key}[{node.slice.value!r}]"
        if key and item in at.scope.definitions and (found := values.name(item, at)):
            return found
        written = values.items(node.value, at) if isinstance(node.value, ast.Name | ast.Attribute) else None
        if written is not None and node.slice.value in written[0]:
            return values.of(written[0][node.slice.value], written[1])
        if key.rpartition(".")[2] in ARGUMENT_OBJECTS and node.slice.value in RANK_NAMES:
            return (Origin(kind=RANK_NAMES[node.slice.value], text=item, note=note_of(node.slice.value)),)
    found = tuple(
        origin
        for origin in values.of(node.value, at)
        if origin.kind in {Kind.LOCAL, Kind.SHARED, Kind.OBJECT, Kind.UNORDERED, Kind.CPU_TENSOR}
    )
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        found = tuple(one for one in found if one.kind is not Kind.LOCAL or one.made)  # a clock under another key
    if isinstance(node.slice, ast.Slice):
        parts = (node.slice.lower, node.slice.upper, node.slice.step)
        ranks = [origin for part in parts for origin in values.of(part, at) if origin.kind in RANK_KINDS]
        note = "even" if _cut_before(key, at) or leaves_no_remainder(at.scope) else "part"
        found += tuple(replace(origin, kind=Kind.LOCAL, note=note) for origin in ranks[:1])
    elif isinstance(node.slice, ast.Compare) and any(one.kind is Kind.LOCAL for one in values.of(node.slice, at)):
        found = tuple(replace(origin, note="picked") if origin.kind is Kind.LOCAL else origin for origin in found)
    return found


def _cut_before(name: str, at: At) -> bool:
    """Whether a list was cut to a multiple of the world size before, so that all ranks get as much of it."""
    before = (one.value for one in at.scope.definitions.get(name, ()) if one.order < at.order)
    return any(isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) for value in before)


def leaves_no_remainder(scope: Scope) -> bool:
    """Whether a function fails where a division leaves a remainder: `assert len(files) % world_size == 0`."""
    for statement in scope.statements:
        node = statement.node
        fails = isinstance(node, ast.Assert) or (isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise))
        if fails and any(_is_remainder(part) for part in ast.walk(node.test)):  # type: ignore[attr-defined]
            return True
    return False


def _is_remainder(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.right, ast.Constant)


def _is_environ(name: str, at: At) -> bool:
    """Whether a name is another one for `os.environ`."""
    given = at.scope.definitions.get(name, ()) if name else ()
    return len(given) == 1 and isinstance(given[0].value, ast.Attribute) and dotted(given[0].value) == "os.environ"


_FLIPPED = {"first": "others", "others": "first"}


def _turned(origin: Origin) -> Origin:
    """The same under `not`."""
    if origin.kind is Kind.SOME_RANKS:
        return replace(origin, kind=Kind.RANK, note=_FLIPPED.get(origin.note, ""))
    if origin.kind is not Kind.RANK and origin.kind not in RANK_KINDS:
        return origin
    note = {"first": "others", "others": "first", "uncertain": "uncertain"}.get(origin.note, "first")
    return replace(origin, kind=Kind.RANK, note=note)


def _compared(values: Values, node: ast.Compare, parts: list[ast.expr], at: At) -> Iterator[Origin]:
    operator = node.ops[0]
    alternatives = [values.of(part, at) for part in parts]
    constants = [_constants(part) for part in parts]
    same_for_all = any(known is not None and known <= {"-1", "None"} for known in constants) or (
        isinstance(operator, ast.GtE | ast.Lt) and constants[-1] == {"0"}
    )
    chosen = [origin for origin in alternatives[0] if any(origin.members)]
    member = dotted(parts[-1]).rpartition(".")[2]
    if chosen and len(parts) == 2 and isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        for origin in chosen:
            if member in origin.members:
                one = _of_member(origin, member)
                yield one if isinstance(operator, ast.Is | ast.Eq) else _turned(one)
        return
    if isinstance(operator, ast.Is | ast.IsNot):
        if constants[-1] == {"None"}:
            yield from _whether_there(operator, alternatives[0])
        return
    if isinstance(operator, ast.In | ast.NotIn) and constants[0] is not None:
        alternatives = alternatives[:1]  # keys are alike on all ranks
    for origins in alternatives:
        for origin in origins:
            if origin.kind in RANK_KINDS and not same_for_all:
                note = _which(operator, constants[-1]) if len(parts) == 2 else ""
                yield replace(origin, kind=Kind.RANK, note="uncertain" if origin.note == "uncertain" else note)
            elif origin.kind in {Kind.LOCAL, Kind.SHARED}:
                yield origin


def _whether_there(operator: ast.cmpop, origins: Origins) -> Iterator[Origin]:
    """What `x is None` depends on: the rank where only some ranks have `x`, the rank's own data where `x` is a batch."""
    for origin in origins:
        if origin.kind is Kind.SOME_RANKS:
            note = origin.note if isinstance(operator, ast.IsNot) else _FLIPPED.get(origin.note, "")
            yield replace(origin, kind=Kind.RANK, note=note)
        elif origin.kind is Kind.LOCAL and origin.note == "batch":
            yield origin


def _constants(node: ast.expr) -> set[str] | None:
    """The literals that an expression consists of: `{"-1", "0"}` of `(-1, 0)`; None where it is anything else."""
    match node:
        case ast.Constant(value=value):
            return {repr(value)}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return {f"-{value!r}"}
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            known = [_constants(part) for part in parts]
            return set().union(*(each for each in known if each)) if all(known) else None
    return None


def _which(operator: ast.cmpop, constant: set[str] | None) -> str:
    if constant is None:
        return ""
    if isinstance(operator, ast.Eq | ast.In):
        return "first"
    if isinstance(operator, ast.NotEq | ast.NotIn | ast.Gt):
        return "others"
    return "first" if isinstance(operator, ast.LtE | ast.Lt) else ""


def _tests(values: Values, node: ast.BoolOp, parts: list[ast.expr], at: At) -> Iterator[Origin]:
    for part in parts:
        for origin in values.of(part, at):
            if origin.kind in RANK_KINDS and origin.kind is not Kind.RANK:
                yield replace(origin, kind=Kind.RANK, note="others")  # a number is true where it is not 0
            elif origin.kind is Kind.SOME_RANKS:
                yield replace(origin, kind=Kind.RANK)
            elif origin.kind in TAINTS:
                yield origin
            elif isinstance(node.op, ast.Or) or origin.kind is Kind.FUNCTION:
                yield origin  # `x or default`


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
    text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    plain = text and isinstance(node.op, ast.Add | ast.Mod)
    for origin in left + right:
        if origin.kind in RANK_KINDS:
            yield origin if plain else replace(origin, kind=Kind.RANK, note="")
        elif origin.kind in TAINTS and origin.kind is not Kind.WORLD_SIZE:
            yield origin
    if isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
        yield from (replace(one, note="number", made="") for one in left if _is_listed(one))
    if isinstance(node.op, ast.Div):
        for origin in right:
            if origin.kind is Kind.WORLD_SIZE and origin.note in {"", "multiplies"}:
                yield replace(origin, note="divides")
    elif not isinstance(node.op, ast.Mult):  # `steps // world_size` is another number, which only depends on it
        yield from (replace(one, note="derived") for one in left + right if one.kind is Kind.WORLD_SIZE)
    if isinstance(node.op, ast.Mult):
        yield from (replace(origin, note="multiplies") for origin in left + right if origin.kind is Kind.WORLD_SIZE)
    path = isinstance(node.op, ast.Div) and not any(one.kind in TAINTS for one in left + right)
    if (text and isinstance(node.op, ast.Mod) and not right) or (
        path and isinstance(node.right, ast.Constant | ast.JoinedStr)
    ):
        yield Origin(kind=Kind.UNKNOWN, text=values.text(node, at.scope))


def _is_listed(origin: Origin) -> bool:
    """Whether a value is an entry of a folder, or how many there are."""
    return origin.note in {"item", "number"} and any(word in origin.text for word in LISTINGS)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def had_by(test: Origins, *, turned: bool) -> Iterator[Origin]:
    """That an object is had by the ranks that pass a test, and is None on the others; or the other way round."""
    for origin in test:
        if origin.kind in RANK_KINDS and origin.note != "uncertain":
            note = origin.note if origin.note in _FLIPPED else ""
            yield replace(origin, kind=Kind.SOME_RANKS, note=_FLIPPED.get(note, "") if turned else note)


def _unwrapped(body: ast.expr, orelse: ast.expr) -> bool:
    """Whether it is `model.module if ... else model`: of a model that is wrapped it is always what is inside."""
    return isinstance(body, ast.Attribute) and body.attr == "module" and dotted(body.value) == dotted(orelse) != ""


def _either(values: Values, test: ast.expr, body: ast.expr, orelse: ast.expr, at: At) -> Iterator[Origin]:
    inside = [origin for origin in values.of(body, at) if origin.kind is Kind.BARE]
    if inside and _unwrapped(body, orelse):
        yield from inside
        return
    yield from values.of(body, at)
    yield from values.of(orelse, at)
    if (_is_none(body) or _is_none(orelse)) and not (
        isinstance(body, ast.Constant) and isinstance(orelse, ast.Constant)
    ):
        yield from had_by(values.of(test, at), turned=_is_none(body))
    if isinstance(body, ast.Constant) and isinstance(orelse, ast.Constant):
        for origin in values.of(test, at):
            if origin.kind in RANK_KINDS:
                yield replace(origin, kind=Kind.RANK, note="" if body.value is None else origin.note)
            elif origin.kind is Kind.LOCAL:
                yield origin
    elif _class_of_member(values, body, at) is not None and _class_of_member(values, orelse, at) is not None:
        members = dotted(body).rpartition(".")[2], dotted(orelse).rpartition(".")[2]
        for origin in values.of(test, at):
            if origin.kind in RANK_KINDS and origin.note != "uncertain":
                yield replace(origin, kind=Kind.RANK, members=members)


def _class_of_member(values: Values, node: ast.expr, at: At) -> Scope | None:
    """The class of the program whose member an expression is: `Role.LEADER`, in its own methods also `cls.LEADER`."""
    if not isinstance(node, ast.Attribute):
        return None
    cls = at.scope.of_class if dotted(node.value) in {"self", "cls"} else _class_of(values, node.value, at)
    return cls if cls is not None and node.attr in cls.definitions else None


def _of_member(origin: Origin, member: str) -> Origin:
    """A test of the rank that chooses between two members, where the result is compared with one of them."""
    note = {False: _FLIPPED.get(origin.note, ""), True: origin.note}[member == origin.members[0]]
    return replace(origin, note=note, members=("", ""))


def _text(values: Values, node: ast.JoinedStr, parts: list[ast.expr], at: At) -> Iterator[Origin]:
    found = [origin for part in parts if isinstance(part, ast.FormattedValue) for origin in values.of(part, at)]
    if not any(isinstance(part, ast.FormattedValue) for part in parts):
        yield Origin(kind=Kind.CONSTANT, text=values.text(node, at.scope))
        return
    text = _with_constants(values, node, parts, at)
    tainted = any(origin.kind in TAINTS for origin in found)
    for origin in found:
        if origin.kind in TAINTS:
            yield origin
        elif origin.kind is not Kind.CONSTANT or not tainted:
            yield Origin(kind=Kind.UNKNOWN, text=text)
    if not found:
        yield Origin(kind=Kind.UNKNOWN, text=text)


def _with_constants(values: Values, node: ast.JoinedStr, parts: list[ast.expr], at: At) -> str:
    """A formatted string as written, with constants in place of the names that hold them."""
    text = values.text(node, at.scope)
    for part in parts:
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
            found = values.of(part.value, at)
            if len(found) == 1 and found[0].kind is Kind.CONSTANT:
                text = text.replace(f"{{{part.value.id}}}", found[0].text.strip("\"'"))
    return text


def _comprehended(values: Values, part: ast.expr, generators: list[ast.comprehension], at: At) -> Iterator[Origin]:
    picked = any(
        one.kind is Kind.LOCAL for test in generators[0].ifs if _is_of_values(test) for one in values.of(test, at)
    )
    for origin in values.of(part, at):
        if origin.kind in TAINTS:
            yield replace(origin, note="picked") if picked and origin.kind is Kind.LOCAL else origin
    yield from (origin for origin in values.of(generators[0].iter, at) if origin.kind is Kind.UNORDERED)


def _is_of_values(test: ast.expr) -> bool:
    """Whether a test looks at values, and not at keys."""
    return any(
        isinstance(one, ast.Compare) and not isinstance(one.ops[0], ast.In | ast.NotIn) for one in ast.walk(test)
    )


_PASSES = frozenset(
    {"enumerate", "tqdm", "iter", "reversed", "list", "tuple", "islice", "trange", "track", "chain", "cycle"}
)


def item_of(values: Values, node: ast.expr, index: tuple[int, ...], at: At) -> Origins:
    """What a loop over an expression gives to the target at `index`."""
    if isinstance(node, ast.Call):
        name = dotted(node.func).rpartition(".")[2]
        if name == "range":
            return ()
        if name == "enumerate" and node.args:
            return () if index[:1] == (0,) else item_of(values, node.args[0], index[1:], at)
        if name == "zip" and index:
            given = node.args[index[0]] if 0 <= index[0] < len(node.args) else None
            return item_of(values, given, index[1:], at) if given is not None else ()
        if name == "items" and isinstance(node.func, ast.Attribute):
            return _local(values.of(node.func.value, at))
    if isinstance(node, ast.Tuple | ast.List):
        return joined(origin for part in node.elts for origin in values.of(part, at))
    loader = loader_in(values, node, at)
    if loader is not None:
        made = replace(loader, kind=Kind.LOCAL, text=values.text(node, at.scope), note="batch")
        return (made,)
    found = tuple(origin for origin in _local(values.of(node, at)) if origin.note != "progress")
    if found or not isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return found
    return (Origin(kind=Kind.LOCAL, text=values.text(node, at.scope), made=values.where(node, at.scope), note="item"),)


def _local(found: Origins) -> Origins:
    return tuple(origin for origin in found if origin.kind in {Kind.LOCAL, Kind.SHARED, Kind.OBJECT})


def loader_in(values: Values, node: ast.expr, at: At) -> Origin | None:
    """The data loader that a loop goes over, also through `enumerate`, `tqdm` and other functions that pass it on."""
    for origin in values.of(node, at):
        if origin.kind is Kind.LOADER:
            return origin
    if isinstance(node, ast.Call):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for each in given[:4]:
            if (
                isinstance(each, ast.Name | ast.Attribute | ast.Call)
                and (found := loader_in(values, each, at)) is not None
            ):
                return found
    return None


def part_of(values: Values, node: ast.expr, found: Origins, index: tuple[int, ...], at: At) -> Origins:
    """What the target at `index` gets when a value is unpacked."""
    from ddpdoctor.source.calls import returned_part

    each = _one_of_many(values, node, index[0]) if len(index) == 1 else None
    if each is not None:
        return values.of(each, at)
    if isinstance(node, ast.Call):
        part = returned_part(values, node, index, at)
        if part is not None:
            return part
    return tuple(origin for origin in found if origin.kind in {Kind.LOCAL, Kind.SHARED, Kind.OBJECT, Kind.UNORDERED})


def _one_of_many(values: Values, node: ast.expr, index: int) -> ast.expr | None:
    """What `a, b = (int(os.environ[key]) for key in ("RANK", "LOCAL_RANK"))` gives to one target; also of `map(int, (x, y))`."""
    key = (id(node), index)
    if key not in values.written_out:
        values.written_out[key] = _written_out(node, index)
    return values.written_out[key]


def _written_out(node: ast.expr, index: int) -> ast.expr | None:
    match node:
        case ast.ListComp(elt=part, generators=[each]) | ast.GeneratorExp(elt=part, generators=[each]) if not each.ifs:
            if not isinstance(each.target, ast.Name) or (item := _element_at(each.iter, index)) is None:
                return None
            return _Replaced(each.target.id, item).visit(copy.deepcopy(part))  # type: ignore[no-any-return]
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name() as function, listed]):
            item = _element_at(listed, index)
            written = ast.Call(func=function, args=[item], keywords=[]) if item is not None else None
            return ast.copy_location(written, node) if written is not None else None
    return None


def _element_at(node: ast.expr, index: int) -> ast.expr | None:
    listed = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    return listed[index] if 0 <= index < len(listed) else None


class _Replaced(ast.NodeTransformer):
    """Puts an expression in place of a name."""

    def __init__(self, name: str, by: ast.expr) -> None:
        self.name, self.by = name, by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.by if node.id == self.name else node

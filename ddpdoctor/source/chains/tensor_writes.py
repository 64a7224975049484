"""The statements of a program that may write into weights, gradients or buffers of a model that trains.

A rule shows the only one, because no other is left: a statement counts unless what it writes into is known to be something else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ddpdoctor.evidence.value_chains import CodeLine, TensorWrite
from ddpdoctor.source.chains.backwards import Backwards
from ddpdoctor.source.chains.causes import Search
from ddpdoctor.source.chains.lines import code_line
from ddpdoctor.source.chains.points import Point
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.names.rank_names import RANK_DECORATORS
from ddpdoctor.source.names.torch_names import WRITES_ITS_SECOND
from ddpdoctor.source.syntax.scopes import Block, RawCall, RawWrite, Scope

MOST_ALIASES = 300
MOST_CALLERS = 12
_NO_WRITES = frozenset({"requires_grad_", "share_memory_", "detach_", "retain_grad_", "zero_grad_", "apply_", "_"})
"""Methods that write no values."""
_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")
_INITS = frozenset({"reset_parameters", "init_weights"})
"""Methods of layers and models that draw new weights."""
_MAKES_ANOTHER = frozenset(
    {"clone", "deepcopy", "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like", "tensor", "zeros",
     "ones", "empty", "full", "rand", "randn", "randint", "arange", "stack", "cat", "item", "tolist", "mean", "sum",
     "norm", "sqrt", "abs", "AveragedModel", "ModelEma", "Generator", "len", "range", "get_rank", "get_world_size"}
)  # fmt: skip
"""Calls whose result shares no memory with what they are given."""
_HANDS_ON = frozenset(
    {"zip", "enumerate", "list", "tuple", "dict", "iter", "next", "reversed", "chain", "islice", "ref", "proxy", "partial",
     "sorted", "filter", "map", "getattr", "cast", "set", "values", "items", "get", "pop"}
)  # fmt: skip
"""Functions whose result holds what they are given; that of a method shares its memory with the object."""
_OF_DICTS = frozenset({"values", "items", "get", "pop"})
_COPIES = frozenset({"deepcopy", "AveragedModel", "ModelEma", "ModelEmaV2", "ModelEmaV3", "EMA"})
"""Functions and classes that make a copy of a model."""
_OF_WEIGHTS = frozenset({"parameters", "named_parameters", "state_dict", "param_groups"})
_MAKES_MODELS = frozenset(
    {"__init__", "__post_init__", "reset_parameters", "_reset_parameters", "init_weights", "_init_weights"}
)
_WRAPPERS = ("DistributedDataParallel", "DDP", "fully_shard", "FullyShardedDataParallel", "prepare")


@dataclass(frozen=True, slots=True)
class _Write:
    """A statement that writes into a tensor, whichever it is."""

    node: ast.expr
    into: ast.expr
    values: tuple[ast.expr, ...]
    order: int
    block: Block


@dataclass(eq=False)
class TensorWrites:
    """Finds them in all functions of a program."""

    back: Backwards
    """Steps back through the program."""
    _buffers: frozenset[str] = field(default=frozenset())
    _weights: frozenset[str] = field(default=frozenset())

    def of(self, scopes: Sequence[Scope]) -> Iterator[TensorWrite]:
        """Those of these functions that run while the model trains."""
        self._buffers = frozenset(_registered(scopes, "register_buffer"))
        self._weights = frozenset({"weight", "bias", *_registered(scopes, "register_parameter"), *_parameters(scopes)})
        found: set[tuple[str, int]] = set()
        for scope in scopes:
            cls = scope.of_class
            if cls is not None and scope.name == "step" and self.back.index.project.is_a(cls, "Optimizer"):
                continue
            for write in _writes(scope, self.back):
                point = Point(write.into, scope, write.order, write.block)
                into, names, is_part = self._into(point)
                if into == "weights" and _clips(write.node):
                    into = "gradients"
                if into and self._while_it_trains(scope, write.order, set()):
                    at = code_line(self.back.index, scope, write.node)
                    by_process = is_part or self._by_process(write, scope)
                    if (at.file, at.line) not in found:
                        found.add((at.file, at.line))
                        called = self._only_call(scope)
                        yield TensorWrite(at=at, into=into, names=names, by_process=by_process, called=called)

    def _only_call(self, function: Scope) -> CodeLine | None:
        sites = self.back.sites(function)
        return code_line(self.back.index, sites[0].caller, sites[0].call.node) if len(sites) == 1 else None

    def _into(self, point: Point) -> tuple[str, tuple[str, ...], bool]:
        """What a tensor may be a part of, the attributes that it is reached by, and whether only its owner has it.

        The optimizer inside a ZeroRedundancyOptimizer, its `optim`, has the parameters that its rank updates.
        """
        is_part = False
        names: dict[str, None] = {}
        found: set[str] = set()
        seen, pending = {point.key}, [point]
        while pending and len(seen) < MOST_ALIASES:
            at = pending.pop()
            node = at.node
            match node:
                case ast.Attribute(attr="param_groups", value=ast.Attribute(attr="optim")):
                    found.add("weights")
                    is_part = True
                case ast.Attribute(attr="grad"):
                    return "gradients", (), is_part
                case ast.Attribute(attr=name) if name in self._buffers:
                    names[name] = None
                    found.add("buffers")
                case ast.Attribute(attr=name) if name in self._weights:
                    names[name] = None
                    found.add("weights")
                case ast.Attribute(attr="param_groups") | ast.Subscript(slice=ast.Constant(value="params")):
                    found.add("weights")
                case ast.Call(func=ast.Attribute(attr=name)) if name in {"buffers", "named_buffers"}:
                    found.add("buffers")
                case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _OF_WEIGHTS:
                    found.add("copies" if self._is_copy(at.at(owner)) else "weights")
            for to in self._shared(at):
                if to.key not in seen:
                    seen.add(to.key)
                    pending.append(to)
        alone = next(iter(found)) if len(found) == 1 else ""
        into = alone if alone in {"buffers", "copies"} else "weights" if found else ""
        return into, tuple(names), is_part

    def _is_copy(self, model: Point) -> bool:
        """Whether a model is a copy of another one, which no wrapper holds."""
        made = Search(self.back).origin(model)
        name = dotted(made.node.func) if made is not None and isinstance(made.node, ast.Call) else ""
        return name.rpartition(".")[2] in _COPIES

    def _shared(self, at: Point) -> Iterator[Point]:
        """What an expression may share its memory with."""
        node = at.node
        if _makes_another(node):
            return
        steps = (edge.to for edge in self.back.steps(at) if not edge.is_test)
        match node:
            case ast.Subscript(value=owner):
                yield from (to for to in steps if to.node is not node.slice or owner is node.slice)
            case ast.ListComp(elt=kept) | ast.SetComp(elt=kept) | ast.GeneratorExp(elt=kept) | ast.DictComp(value=kept):
                yield from (to for to in steps if to.node is kept)
            case ast.Call() if not self.back.is_programs(node, at.scope):
                last = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
                given = [*node.args, *(one.value for one in node.keywords)]
                holds, views = last in _HANDS_ON, last not in _HANDS_ON or last in _OF_DICTS
                yield from (to for to in steps if (holds if to.node in given else views))
            case _:
                yield from steps

    def _by_process(self, write: _Write, scope: Scope) -> bool:
        """Whether what differs between processes may decide what is written, or whether it is."""
        at = Point(write.node, scope, write.order, write.block)
        tests = [edge.to for edge in self.back.around(scope, write.order, write.block, at)]
        if any(dotted(one).rpartition(".")[2] in RANK_DECORATORS for one in scope.decorators) or _draws(write.node):
            return True
        return Search(self.back).depends([*tests, *map(at.at, write.values)])

    def _while_it_trains(self, scope: Scope, order: int, seen: set[int]) -> bool:
        """Whether a place may run after the model was wrapped: not only while one is made."""
        if id(scope) in seen:
            return False
        seen.add(id(scope))
        if scope.name in _MAKES_MODELS and scope.of_class is not None:
            return False
        if any(
            call.order > order and call.last in _WRAPPERS and not scope.loops_around(call.block) for call in scope.calls
        ):
            return False
        sites = [(site.caller, site.call) for site in self.back.sites(scope)] + [*self.back.handed(scope)]
        if not sites:
            return True
        return any(self._while_it_trains(caller, call.order, seen) for caller, call in sites[:MOST_CALLERS])


def _writes(scope: Scope, back: Backwards) -> Iterator[_Write]:
    for call in scope.calls:
        node, name = call.node, call.method
        if call.target is not None or name in _NO_WRITES:
            continue
        if name in _INITS and isinstance(node.func, ast.Attribute) and dotted(node.func.value) != "super":
            yield _Write(
                node,
                ast.copy_location(ast.Attribute(node.func.value, "weight", ast.Load()), node),
                (),
                call.order,
                call.block,
            )
        given = (*node.args, *(one.value for one in node.keywords))
        if call.meant in WRITES_ITS_SECOND and len(given) > 1:
            yield _Write(node, given[1], given[:1], call.order, call.block)
        if not name.endswith("_") or name.endswith("__"):
            continue
        method = isinstance(node.func, ast.Attribute) and not _is_function(call)
        if method and isinstance(node.func, ast.Attribute):
            yield _Write(node, node.func.value, given, call.order, call.block)
        elif given:
            yield _Write(node, given[0], given[1:], call.order, call.block)
    for write in scope.writes:
        if not _is_setting(write.target) and not _is_item_of_dict(write, scope, back):
            yield _Write(write.target, write.target, (write.value,), write.order, write.block)
    for key, definitions in scope.definitions.items():
        for one in definitions:
            if one.form == "augment" and one.value is not None and isinstance(one.value, ast.expr):
                target = _named(key, one.value)
                if not any(write.order - 1 <= one.order <= write.order for write in scope.writes):
                    yield _Write(target, target, (one.value,), one.order, one.block)


def _draws(node: ast.expr) -> bool:
    """Whether a call fills a tensor with numbers that it draws."""
    name = (
        (dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
    )
    return name in _INITS or name.endswith(
        ("normal_", "uniform_", "bernoulli_", "random_", "orthogonal_", "exponential_")
    )


def _clips(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in _CLIPS


def _named(key: str, beside: ast.expr) -> ast.expr:
    """The expression that a dotted name is."""
    first, *rest = key.split(".")
    node: ast.expr = ast.copy_location(ast.Name(first, ast.Load()), beside)
    for part in rest:
        node = ast.copy_location(ast.Attribute(node, part, ast.Load()), beside)
    return node


def _is_function(call: RawCall) -> bool:
    """Whether a dotted name is a function of a module: `nn.init.zeros_`."""
    return isinstance(call.meant, str) and call.meant.startswith(("torch.", "numpy."))


def _is_setting(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and isinstance(target.slice.value, str)
    )


def _is_item_of_dict(write: RawWrite, scope: Scope, back: Backwards) -> bool:
    """Whether an assignment puts something into a dict or a list, and nothing into a tensor: `shadow[name] = p.clone()`."""
    if not write.replaces or not isinstance(write.target, ast.Subscript):
        return False
    point = Point(write.target.value, scope, write.order, write.block)
    seen, pending = {point.key}, [point]
    while pending and len(seen) < MOST_ALIASES:
        at = pending.pop()
        made = dotted(at.node.func).rpartition(".")[2] if isinstance(at.node, ast.Call) else ""
        if isinstance(at.node, ast.Dict | ast.List | ast.DictComp | ast.ListComp) or made in {
            "dict",
            "defaultdict",
            "OrderedDict",
            "list",
        }:
            return True
        for edge in back.steps(at):
            if edge.is_same and edge.to.key not in seen:
                seen.add(edge.to.key)
                pending.append(edge.to)
    return False


def _makes_another(node: ast.expr) -> bool:
    """Whether an expression is a tensor, or a number, of its own."""
    if isinstance(node, ast.Call):
        return (dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")) in _MAKES_ANOTHER
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Constant | ast.JoinedStr | ast.BoolOp)


def _registered(scopes: Sequence[Scope], method: str) -> Iterator[str]:
    for scope in scopes:
        for call in scope.calls:
            first = call.node.args[0] if call.node.args else None
            if call.method == method and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def _parameters(scopes: Sequence[Scope]) -> Iterator[str]:
    """The attributes that are assigned a Parameter."""
    for scope in scopes:
        for key, definitions in scope.definitions.items():
            for one in definitions:
                made = dotted(one.value.func) if isinstance(one.value, ast.Call) else ""
                if made.endswith("Parameter") and "." in key:
                    yield key.rpartition(".")[2]

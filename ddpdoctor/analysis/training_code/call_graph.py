"""Who calls whom in the training code, which functions all ranks run, and which collectives a call leads to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

from ddpdoctor.evidence.training_code import (
    Call,
    Context,
    Cut,
    Function,
    Guard,
    Kind,
    Loop,
    Module,
    Program,
    TrainingCode,
    Value,
    files_together,
)

COLLECTIVE = frozenset({"collective", "collective-save"})
DOES_THE_DATA = frozenset(
    {"lightning", "fabric", "accelerate", "transformers", "ignite", "mmengine", "composer", "catalyst", "fastai", "detectron2",
     "webdataset", "torchdata", "deepspeed", "ray", "fairseq", "speechbrain", "nemo", "megatron", "colossalai", "torchtitan"}
)  # fmt: skip
"""Frameworks that give each rank its own data, or set the epoch of samplers, by themselves."""
DOES_THE_DEVICE = DOES_THE_DATA - {"webdataset", "torchdata"} | {
    "horovod",
    "xla",
    "sagemaker",
    "submitit",
    "jax",
    "tensorflow",
}
"""Frameworks that give each rank its device, or make the process group, by themselves."""
NO_GRADIENTS = ("no_grad", "inference_mode")
GRADIENTS = ("enable_grad", "set_grad_enabled")
DEEPEST = 6
_RANK_WORDS = re.compile(
    r"rank(?:s|id|idx)?(?![a-z])|(?<![a-z])(?:is)?(?:main|master|chief|leader|primary|coordinator)"
    r"(?:process|proc|rank|node|worker|gpu)?(?![a-z])|(?:process|proc|global|node|worker|gpu|device|is|local|world)_?zero(?![a-z])"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Reached:
    """A call that all ranks must make, and the calls of the program's functions that lead to it."""

    call: Call
    through: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """A call, and the function that it stands in."""

    function: Function
    call: Call


@dataclass(eq=False)
class CallGraph:
    """The facts, and the questions that rules ask about them."""

    code: TrainingCode
    backwards: dict[tuple[str, int], Held | None] = field(default_factory=dict)
    """By function and depth of the search, the backward that it makes for certain, where `backward_in` was asked."""
    _always: dict[str, bool | None] = field(default_factory=dict)
    _reached: dict[str, Reached | None] = field(default_factory=dict)
    _near: dict[tuple[int, str], list[tuple[Function, Call]]] = field(default_factory=dict)

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Every function by its id."""
        return {function.id: function for module in self.code.modules for function in module.functions}

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Every module by its file."""
        return {module.file: module for module in self.code.modules}

    @cached_property
    def callers(self) -> dict[str, list[tuple[Function, Call]]]:
        """The calls of each function."""
        found: dict[str, list[tuple[Function, Call]]] = {}
        for function in self.functions.values():
            for call in function.calls:
                if call.target:
                    found.setdefault(call.target, []).append((function, call))
        for function in self.functions.values():
            if function.overrides:  # `self.step()` of a base class may call the method of any class below it
                found.setdefault(function.id, []).extend(found.get(function.overrides, ()))
        return found

    @cached_property
    def _programs(self) -> dict[str, list[Program]]:
        found: dict[str, list[Program]] = {}
        for program in self.code.programs:
            for file in program.files:
                found.setdefault(file, []).append(program)
        return found

    @cached_property
    def made(self) -> dict[str, tuple[Function, Call]]:
        """Every call by its id: what made an object."""
        found: dict[str, tuple[Function, Call]] = {}
        for function in self.functions.values():
            for call in function.calls:
                found.setdefault(call.id, (function, call))  # of `model(x).sum().backward()` the innermost
        return found

    @cached_property
    def _together(self) -> dict[str, frozenset[str]]:
        return files_together(self.code.programs)

    @cached_property
    def _files_with(self) -> dict[str, frozenset[str]]:
        """For every name that a module calls, reads or imports, the files that do."""
        found: dict[str, set[str]] = {}
        for module in self.code.modules:
            for word in (*module.words, *module.frameworks, *module.reads):
                found.setdefault(word, set()).add(module.file)
        return {word: frozenset(files) for word, files in found.items()}

    @cached_property
    def _by_purpose(self) -> dict[str, list[tuple[Function, Call]]]:
        found: dict[str, list[tuple[Function, Call]]] = {}
        for function in self.functions.values():
            for call in function.calls:
                found.setdefault(call.does, []).append((function, call))
        return found

    @cached_property
    def _by_file(self) -> dict[str, dict[str, list[tuple[int, Function, Call]]]]:
        """By purpose and file, the calls, with their number among all calls."""
        found: dict[str, dict[str, list[tuple[int, Function, Call]]]] = {}
        calls = ((function, call) for function in self.functions.values() for call in function.calls)
        for number, (function, call) in enumerate(calls):
            table = found.setdefault(call.does, {})
            table.setdefault(function.id.partition("::")[0], []).append((number, function, call))
        return found

    @cached_property
    def _loops_over(self) -> dict[str, list[tuple[Function, Loop]]]:
        found: dict[str, list[tuple[Function, Loop]]] = {}
        for function in self.functions.values():
            for loop in function.loops:
                for made in loop.over.made:
                    found.setdefault(made, []).append((function, loop))
        return found

    @cached_property
    def _cuts_of(self) -> dict[str, list[Cut]]:
        found: dict[str, list[Cut]] = {}
        for function in self.functions.values():
            for cut in function.cuts:
                for made in cut.whole.made:
                    found.setdefault(made, []).append(cut)
        return found

    @cached_property
    def _taken_by(self) -> dict[str, list[tuple[Function, Call]]]:
        found: dict[str, list[tuple[Function, Call]]] = {}
        for function in self.functions.values():
            for call in function.calls:
                for made in all_made(call):
                    found.setdefault(made, []).append((function, call))
        return found

    # programs

    def programs(self, function: Function) -> list[Program]:
        """The programs that a function belongs to."""
        return self._programs.get(function.id.partition("::")[0], [])

    @cached_property
    def distinct_programs(self) -> tuple[Program, ...]:
        """One program for each set of files: modules that import each other in a ring are one."""
        found: dict[tuple[str, ...], Program] = {}
        for program in self.code.programs:
            found.setdefault(program.files, program)
        return tuple(found.values())

    def any_program(self, function: Function, words: Iterable[str]) -> bool:
        """Whether any program that the function belongs to calls, reads or imports one of `words`."""
        files = self.files_near(function)
        return any(not files.isdisjoint(self._files_with[word]) for word in words if word in self._files_with)

    def any_word(self, function: Function, test: Callable[[str], bool]) -> bool:
        """Whether any program that the function belongs to calls, reads or imports a name that passes `test`."""
        files = self.files_near(function)
        return any(test(word) and not files.isdisjoint(found) for word, found in self._files_with.items())

    def files_near(self, function: Function) -> frozenset[str]:
        """The files of all programs that a function belongs to."""
        return self._together.get(function.id.partition("::")[0], frozenset())

    def calls_near(self, function: Function, *does: str) -> Iterator[tuple[Function, Call]]:
        """Every call for one of these purposes in the programs that a function belongs to."""
        files = self.files_near(function)
        for purpose in does:
            key = (id(files), purpose)
            if key not in self._near:
                self._near[key] = [pair for pair in self.calls(purpose) if pair[0].id.partition("::")[0] in files]
            yield from self._near[key]

    def calls_in(self, program: Program, first: str, *others: str) -> Iterator[tuple[Function, Call]]:
        """The calls for these purposes in a program, file by file, as they are written."""
        tables = [table for purpose in (first, *others) if (table := self._by_file.get(purpose))]
        for file in program.files if tables else ():
            found = [each for table in tables for each in table.get(file, ())]
            yield from ((function, call) for _, function, call in sorted(found, key=itemgetter(0)))

    def calls(self, *does: str) -> Iterator[tuple[Function, Call]]:
        """Every call for one of these purposes."""
        for purpose in does:
            yield from self._by_purpose.get(purpose, ())

    def loops_over(self, made: str) -> list[tuple[Function, Loop]]:
        """The loops over an object that a call made: the call's id."""
        return self._loops_over.get(made, [])

    def taken_by(self, made: str) -> list[tuple[Function, Call]]:
        """The calls that take an object that a call made, as their receiver or an argument."""
        return self._taken_by.get(made, [])

    def cuts_of(self, made: str) -> list[Cut]:
        """The parts that ranks take of a list that a call made."""
        return self._cuts_of.get(made, [])

    # who runs a line

    def on_all_ranks(self, function: Function) -> bool | None:
        """True where a chain of calls without a test of the rank leads here, False where all have one, None if unknown."""
        waiting, begun = [function], set[str]()
        while waiting:
            at = waiting[-1]
            if at.id in begun:
                begun.remove(at.id)
                self._always[at.id] = self._judged(at)
            elif at.id not in self._always:
                begun.add(at.id)
                self._always[at.id] = None  # for functions that call each other in a ring
                waiting += [each for each in reversed(self._asked_first(at)) if each.id not in self._always]
                continue
            waiting.pop()
        return self._always[function.id]

    def _asked_first(self, function: Function) -> list[Function]:
        """The functions whose answers that of a function depends on."""
        around = self._defines_handler(function)
        callers = self.callers.get(function.id, [])
        return [*(caller for caller, _ in callers), *((around,) if around is not None and not callers else ())]

    def _judged(self, function: Function) -> bool | None:
        """The answer for a function, from those for the functions that it depends on."""
        if any(guard.by_rank for guard in function.guards):
            return False
        if function.entry:
            return True if not _is_cell(function) or _makes_the_job(function) else None
        callers = self.callers.get(function.id, [])
        answers = [self._under(call.guards, caller) for caller, call in callers]
        if True in answers:
            return True
        if answers and None not in answers:
            return False
        around = self._defines_handler(function)
        if not callers and around is not None:
            return self._under(function.within, around)
        return True if _makes_the_job(function) else None

    def _under(self, guards: Iterable[Guard], function: Function) -> bool | None:
        """Whether all ranks reach a line of a function under these tests."""
        guards = tuple(guards)
        if any(guard.by_rank for guard in guards):
            return False
        return None if any(may_ask_for_rank(guard) for guard in guards) else self._always.get(function.id)

    def _defines_handler(self, function: Function) -> Function | None:
        """The function in which a handler of Ignite's is defined; None where it is no such handler."""
        handles = any(name.endswith(".on") for name in function.decorators)
        return self.functions.get(function.id.rpartition(".")[0]) if handles else None

    def guarded_with_caller(self, function: Function, call: Call) -> tuple[Function, Call, Guard] | None:
        """The test of the rank around a call, its function, or the only call of the function that it stands in, and where."""
        guard = rank_guard(call.guards) or next((one for one in function.guards if one.by_rank), None)
        if guard is not None:
            return function, call, guard
        callers = self.callers.get(function.id, ())
        if len(callers) != 1 or (guard := rank_guard(callers[0][1].guards)) is None:
            return None
        return *callers[0], guard

    def is_hook_of_lightning(self, function: Function) -> bool:
        """Whether this is a method of a LightningDataModule that Lightning calls in every process."""
        name = function.id.rpartition("::")[2]
        owner = name.rpartition(".")[0]
        module = self.modules.get(function.id.partition("::")[0])
        hooks = {"setup", "train_dataloader", "val_dataloader", "test_dataloader"}
        return function.place.function in hooks and module is not None and owner in module.data_modules

    def comes_after(self, function: Function, owner: Function, call: Call, depth: int = 3) -> bool:
        """Whether all known calls of a function come when `call` of `owner` was made."""
        callers = self.callers.get(function.id, ())
        return bool(callers) and all(
            self._made_before(caller, way, function, owner, call)
            or (depth > 0 and caller.id != owner.id and self.comes_after(caller, owner, call, depth - 1))
            for caller, way in callers
        )

    def _made_before(self, caller: Function, way: Call, function: Function, owner: Function, call: Call) -> bool:
        if caller.id == owner.id:
            return way.order > call.order
        same_class = (
            owner.place.function == "__init__" and function.id.rpartition(".")[0] == owner.id.rpartition(".")[0]
        )
        within = any(each.target == function.id for each in owner.calls)
        return (same_class and not within) or any(
            each.target == owner.id and each.order < way.order and each.loops == way.loops[: len(each.loops)]
            for each in caller.calls
        )

    def line_on_all_ranks(self, function: Function, call: Call) -> bool:
        """Whether all ranks make a call for certain, as far as tests of the rank go."""
        asked = any(guard.by_rank or may_ask_for_rank(guard) for guard in call.guards)
        return not asked and self.on_all_ranks(function) is True

    def all_enter(self, context: Context) -> bool:
        """Whether all ranks run a `with` block of the program alike: what is entered asks for no rank and meets no other one."""
        ids = (context.target, f"{context.target}.__enter__", f"{context.target}.__exit__") if context.target else ()
        entered = [self.functions[each] for each in ids if each in self.functions]
        calls = [call for function in entered for call in function.calls]
        guards = [*(call.guards for call in calls), *(leave.guards for function in entered for leave in function.exits)]
        asks = any(one.by_rank for each in guards for one in each)
        return bool(entered) and not asks and not any(call.does in COLLECTIVE for call in calls)

    def without_gradients(self, function: Function, call: Call) -> bool:
        """Whether a call is made under `no_grad`: by itself, in its function, or wherever the function is called.

        The nearest of several such blocks decides: `enable_grad` in a function that is called under `no_grad`.
        """
        if (nearest := call.under(*NO_GRADIENTS, *GRADIENTS)) is not None:
            return _takes_gradients_away(nearest)
        decorators = [name for name in function.decorators if name.endswith((*NO_GRADIENTS, *GRADIENTS))]
        if decorators:
            return decorators[-1].endswith(NO_GRADIENTS)
        around = [way.under(*NO_GRADIENTS, *GRADIENTS) for _, way in self.callers.get(function.id, ())]
        return bool(around) and all(each is not None and _takes_gradients_away(each) for each in around)

    def starts_the_job(self, function: Function, depth: int = 2) -> bool:
        """Whether a function makes the process group, by itself or in one that it calls."""
        called = [self.functions[call.target] for call in function.calls if call.target in self.functions]
        return any(call.does == "init" for call in function.calls) or (
            depth > 0 and any(self.starts_the_job(each, depth - 1) for each in called)
        )

    # collectives

    def collective_in(self, function_id: str, depth: int = DEEPEST) -> Reached | None:
        """The first call that every rank must make once it calls a function, whatever the arguments."""
        if function_id not in self._reached:
            self._reached[function_id] = None
            function = self.functions.get(function_id)
            if function is not None and not function.guards and depth:
                self._reached[function_id] = next(self._certain(function, depth), None) or self._around(function, depth)
        return self._reached[function_id]

    def _around(self, function: Function, depth: int) -> Reached | None:
        """The first such call of a decorator of the program: what it puts around the function is called in its place."""
        for decorator in function.decorators:
            inside = self._inside.get(decorator, [])
            for inner in inside if len(inside) == 1 else ():  # of several, not all are put around
                if (found := next(self._certain(inner, depth - 1), None)) is not None:
                    return found
        return None

    @cached_property
    def _inside(self) -> dict[str, list[Function]]:
        """By function, the functions that are defined in it."""
        found: dict[str, list[Function]] = {}
        for function in self.functions.values():
            found.setdefault(function.id.rpartition(".")[0], []).append(function)
        return found

    def _certain(self, function: Function, depth: int) -> Iterator[Reached]:
        for call in function.calls:
            if not unconditional(call.guards, function):
                if is_collective(call) and _in_both_branches(call, function):
                    yield Reached(call)
                continue
            if is_collective(call):
                yield Reached(call)
            elif call.target and (inner := self.collective_in(call.target, depth - 1)) is not None:
                yield Reached(inner.call, (call, *inner.through))

    def leads_to_collective(self, call: Call) -> Reached | None:
        """The collective that a call is, or makes for certain; None where there is none."""
        if is_collective(call):
            return Reached(call)
        if call.target and (inner := self.collective_in(call.target)) is not None:
            return Reached(inner.call, (call, *inner.through))
        return None

    def may_make(self, function_id: str, name: str, depth: int = 3) -> bool:
        """Whether a function, or one that it calls, makes a collective of this name, whatever the tests around it."""
        function = self.functions.get(function_id)
        if function is None or not depth:
            return False
        return any(
            (call.does in COLLECTIVE and call.name.rpartition(".")[2] == name)
            or (call.target and call.target != function_id and self.may_make(call.target, name, depth - 1))
            for call in function.calls
        )

    def methods_near(self, function: Function, name: str) -> list[str]:
        """The ids of the methods of this name (`.generate`) in the programs that a function belongs to."""
        files = self.files_near(function)
        return [each for each in self._methods.get(name, ()) if each.partition("::")[0] in files]

    @cached_property
    def _methods(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in self.functions:
            owner, _, name = each.rpartition("::")[2].rpartition(".")
            if owner:
                found.setdefault(f".{name}", []).append(each)
        return found

    # models and loaders

    def loaders(self, value: Value) -> list[tuple[Function, Call]]:
        """The calls that made the data loaders that a value can be, or was taken from."""
        found = [self.made[made] for made in value.made if made in self.made]
        return [(function, call) for function, call in found if call.does == "loader" or self.own_cut(call) is not None]

    def is_sharded(self, loader: Call) -> bool:
        """Whether each rank gets its part: by a sampler, or by a data set or a loader of the program that cuts its own."""
        given = loader.argument("sampler") or loader.argument("batch_sampler")
        if given is not None and given.may(Kind.SAMPLER) is not None:
            return True
        dataset = loader.argument("dataset", 0)
        if dataset is not None and any(one.kind is Kind.DATASET and one.note == "part" for one in dataset.origins):
            return True
        return self.cut_inside(loader) is not None or self.own_cut(loader) is not None

    def own_cut(self, made: Call) -> Cut | None:
        """Where the class of the program that a call makes an iterable object of takes the rank's part of a list."""
        cls, _, method = made.target.rpartition(".")
        if method not in {"__init__", "__post_init__"} or f"{cls}.__iter__" not in self.functions:
            return None
        found = (self.functions.get(f"{cls}.{name}") for name in ("__init__", "__post_init__", "__iter__"))
        return next((cut for each in found if each is not None for cut in each.cuts), None)

    def cut_inside(self, loader: Call) -> Cut | None:
        """Where the class of a loader's data set takes the rank's part of a list; None where it does not."""
        dataset = loader.argument("dataset", 0)
        origin = dataset.only(Kind.DATASET, Kind.INSTANCE) if dataset is not None else None
        methods = ("__init__", "__iter__") if origin is not None and origin.note else ()
        made = (self.functions.get(f"{origin.note}.{name}") for name in methods if origin is not None)
        return next((cut for each in made if each is not None for cut in each.cuts), None)

    def wraps(self, value: Value) -> list[tuple[Function, Call]]:
        """The calls that wrapped the model that a value can be."""
        return [
            self.made[made] for made in value.made if made in self.made and self.made[made][1].does.startswith("wrap-")
        ]

    def forwards(self, value: Value) -> list[tuple[Function, Call]]:
        """The forward calls that a loss comes from."""
        found = [self.made[made] for made in value.made if made in self.made]
        return [(function, call) for function, call in found if call.does == "forward"]

    def loss_of(self, backward: Call) -> Value | None:
        """What a backward begins with: `loss` of `loss.backward()` and of `accelerator.backward(loss)`."""
        given = backward.argument("loss", 0)
        if given is not None and self.forwards(given):
            return given
        return backward.receiver

    def trains(self, forward: Call) -> bool:
        """Whether a backward follows on what a forward gave, in its own function or in another."""
        return any(call.does == "backward" for _, call in self.taken_by(forward.id))

    def has_batch_norm(self, model: Value) -> bool:
        """Whether a model has buffers that its wrapper broadcasts, as batch normalisation does."""
        names = (
            "resnet",
            "resnext",
            "densenet",
            "mobilenet",
            "efficientnet",
            "regnet",
            "inception",
            "googlenet",
            "shufflenet",
        )
        for origin in model.origins:
            if origin.note == "batch-norm":
                return True
            if origin.kind is Kind.MODEL and origin.text.rpartition(".")[2].lower().startswith(names):
                return True
            if origin.kind is not Kind.MODEL or not origin.note:
                continue
            module = self.modules.get(origin.note.partition("::")[0])
            if self._norms(f"{origin.note}.__init__", DEEPEST) or (
                module is not None
                and not module.functions
                and {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"} & {*module.words}
            ):
                return True
        return False

    def _norms(self, function_id: str, depth: int) -> bool:
        function = self.functions.get(function_id)
        if function is None or not depth:
            return False
        return any(
            call.does == "batch-norm" or (call.target and self._norms(call.target, depth - 1))
            for call in function.calls
        )


def _makes_the_job(function: Function) -> bool:
    """Whether a function makes the process group or a wrapper under no test of the rank: all ranks must call it then."""
    return any(
        (call.does == "init" or call.does.startswith("wrap-"))
        and not any(guard.by_rank or guard.form == "after" for guard in call.guards)
        for call in function.calls
    )


def _takes_gradients_away(context: Context) -> bool:
    """Whether nothing is recorded in a block: `no_grad()` and `set_grad_enabled(False)`, not `inference_mode(False)`."""
    return context.name.endswith(NO_GRADIENTS) != context.text.endswith(("(False)", "mode=False)"))


def _is_cell(function: Function) -> bool:
    """Whether it is the code of a notebook's cells, which one process runs: it starts the ranks."""
    return function.place.function == "<module>" and function.place.file.partition(":")[0].endswith(".ipynb")


def all_made(call: Call) -> AbstractSet[str]:
    """The ids of the calls that made what a call takes: its receiver first, then its arguments in their order."""
    taken = [*((call.receiver,) if call.receiver is not None else ()), *(argument.value for argument in call.arguments)]
    return {made: None for value in taken for made in value.made}.keys()


def is_collective(call: Call) -> bool:
    """Whether a call is a collective of the whole job: one over another group is not judged."""
    if call.does not in COLLECTIVE:
        return False
    group = call.argument("group") or call.argument("process_group")
    return group is None or group.constant == "None" or group.text.endswith("WORLD")


def unconditional(guards: Iterable[Guard], function: Function) -> bool:
    """Whether nothing decides about a line but whether there are several ranks."""
    return all(
        guard.form == "main"
        or (guard.state and not {name.partition(".")[0] for name in guard.names} & {*function.parameters} - {"self"})
        for guard in guards
    )


def _in_both_branches(call: Call, function: Function) -> bool:
    """Whether a collective under a test of the rank, as of a sender, has its like in the other branch of that test."""
    decides = [guard for guard in call.guards if not guard.state and guard.form != "main"]
    if len(decides) != 1 or decides[0].form != "if" or not decides[0].by_rank:
        return False
    return any(
        is_collective(other)
        and other.name == call.name
        and not other.loops
        and [guard.form for guard in other.guards if not guard.state and guard.form != "main"] == ["else"]
        and any(guard.form == "else" and guard.test == decides[0].test for guard in other.guards)
        for other in function.calls
    )


def rank_guard(guards: Iterable[Guard]) -> Guard | None:
    """The first test that picks one rank, or all but one, without early exits before the line."""
    return next(
        (
            guard
            for guard in guards
            if guard.by_rank
            and guard.of_rank
            and guard.form not in {"after", "decorator"}
            and not _asks_for_types(guard)
        ),
        None,
    )


def may_ask_for_rank(guard: Guard) -> bool:
    """Whether a test whose value is not known may ask for the rank: its names say so."""
    known = guard.by_rank is not None or guard.value.may(Kind.FUNCTION) is not None
    unknown = not known and not guard.state and guard.form not in {"main", "except"}
    return unknown and _RANK_WORDS.search(_CAMEL.sub("_", guard.test).lower()) is not None


def _asks_for_types(guard: Guard) -> bool:
    """Whether a test also asks what kind of object there is: which ranks pass is then not known from the text."""
    return "type(" in guard.test or "isinstance(" in guard.test


def inner_loops(function: Function, order: int) -> Iterator[Loop]:
    """The loops of a function around a place, innermost first."""
    yield from sorted(
        (loop for loop in function.loops if loop.order < order <= loop.last_order), key=lambda loop: -loop.order
    )


def derive(code: TrainingCode) -> CallGraph:
    """The call graph over the facts."""
    return CallGraph(code)

"""DDP711: a shuffling DistributedSampler gives the same order in every epoch, because nothing shows it the epoch."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.epochs import (
    EpochLoop,
    epoch_loop,
    loaders_of,
    shuffles_for_certain,
    told_in_place_of,
    told_the_epoch,
)
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding, fix
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP711",
    name="set-epoch-missing",
    summary="a shuffling DistributedSampler is used for several epochs, and nothing calls set_epoch",
    severity=Severity.WARN,
    remedy="call `sampler.set_epoch(epoch)` at the top of the epoch loop",
    leads_to=("DDP513",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each sampler that is gone over in an epoch loop and never told the epoch."""
    for function, sampler in (*_of_torch(graph), *_of_the_program(graph)):
        if graph.any_program(function, DOES_THE_DATA - {"deepspeed"}):
            yield from _in_an_engine(graph, function, sampler)
            continue
        loop = epoch_loop(graph, sampler)
        if loop is None or told_the_epoch(graph, function, sampler) is not None:
            continue
        if told_in_place_of(graph, function, loop) is not None:  # DDP712 names that call
            continue
        name = next((origin.why[0].text.partition(" ")[0] for origin in loop.through.origins if origin.why), "sampler")
        here = _name_beside(loop)
        drawn = _drawn_through(graph, sampler)
        yield code_finding(
            RULE,
            f"nothing calls set_epoch on this sampler: `{loop.epochs.head}` sees the same order in every epoch",
            sampler.place,
            loop.epochs.place,
            notes=[f"the loader with it is gone over in line {loop.batches.place.line}: `{loop.batches.head}`"],
            remedy=f"call `{name}.{drawn}.set_epoch({loop.counter})` as the first line of `{loop.epochs.head}`",
            fix=fix(Edit.FIRST_IN_LOOP, loop.epochs.place, new=f"{here}.{drawn}.set_epoch({loop.counter})")
            if here.isidentifier() and loop.counter.isidentifier()
            else None,
        )


def _in_an_engine(graph: CallGraph, function: Function, sampler: Call) -> Iterator[Finding]:
    """A sampler whose loader an engine of Ignite goes over for several epochs, where no handler tells it the epoch."""
    if graph.any_program(function, ("set_epoch", "train_sampler=", *DOES_THE_DATA - {"ignite"})):
        return
    for loader in sorted(loaders_of(graph, sampler)):
        for _, run in graph.taken_by(loader):
            epochs = run.argument("max_epochs", 1) if run.does == "run-engine" else None
            if epochs is None or epochs.constant in {"1", "None"}:
                continue
            yield code_finding(
                RULE,
                f"no handler of `{run.text}` calls set_epoch on this sampler: every epoch has the same order",
                sampler.place,
                run.place,
                remedy="call `sampler.set_epoch(engine.state.epoch)` in a handler of `Events.EPOCH_STARTED`",
            )
            return


def _drawn_through(graph: CallGraph, sampler: Call) -> str:
    """The attribute of its loader under which a sampler is held."""
    given = [graph.made[each][1].argument("batch_sampler") for each in loaders_of(graph, sampler)]
    itself = any(one is not None and sampler.id in one.made for one in given)
    return "batch_sampler" if itself and sampler.does != "sampler" else "sampler"


def _of_torch(graph: CallGraph) -> Iterator[tuple[Function, Call]]:
    """The calls that make a DistributedSampler which shuffles."""
    for function, sampler in graph.calls("sampler"):
        if sampler.name.endswith("DistributedSampler") and shuffles_for_certain(sampler):
            yield function, sampler


def _of_the_program(graph: CallGraph) -> Iterator[tuple[Function, Call]]:
    """The calls that make a sampler of a class of the program, which has a set_epoch that nothing near calls."""
    for function, made in graph.calls("own-sampler"):
        maker = graph.functions.get(made.target)
        asks = maker is not None and "shuffle" in maker.parameters
        shuffle = made.argument("shuffle")
        shuffles = shuffle.constant == "True" if shuffle is not None else not asks
        if shuffles and not graph.any_program(function, ("set_epoch",)):
            yield function, made


def _name_beside(loop: EpochLoop) -> str:
    """The name that the loader itself has in the function of the epoch loop; empty where it has none there.

    A loop may go over an iterator that is made of the loader, or are in a function that gets it under another name.
    """
    first, last = loop.function.place.line, loop.epochs.place.line
    for origin in loop.through.origins:
        for link in reversed(origin.why):
            name, sign, _ = link.text.partition(" = ")
            if sign and link.file == loop.epochs.place.file and first <= link.line <= last:
                return name
        given = origin.why[0].text.partition(" ")[0] if origin.why else ""
        if loop.within.id == loop.function.id and given in loop.function.parameters:
            return given
    return ""

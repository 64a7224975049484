"""The line of the program that decides, where its source and what ranks recorded leave only one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.value_chains import LOADER, CodeLine, ShardedModel, ValueChain, ValueChains
from ddpdoctor.model import Where

OTHER_READS = {
    "part": "depends on the rank's part of the data",
    "seed": "is the process's own seed",
    "local": "is the process's own",
}


def depends_on_process(
    chains: ValueChains | None, lines: Iterable[Frame], argument: str, ranks: Sequence[int]
) -> tuple[Where, ...]:
    """Where an argument of the calls on these lines begins to depend on the process, and first the test that decides so."""
    each = [chains.of(line, argument) for line in dict.fromkeys(lines)] if chains is not None else []
    found = {(one.test, one.entry): one for one in each if one is not None and one.entry is not None}
    if len(found) != 1 or len(each) != 1:
        return ()
    chain = next(iter(found.values()))
    assert chain.entry is not None
    shown = [(chain.test, f"`{chain.test.text}` decides")] if chain.test is not None else []
    shown += [(chain.entry, _how(chain))] if chain.test is None or chain.entry.line != chain.test.line else []
    return tuple(Where.at(line.frame, rank=rank, note=note) for line, note in shown for rank in ranks)


def _how(chain: ValueChain) -> str:
    assert chain.entry is not None
    return f"`{chain.entry.text}` {OTHER_READS.get(chain.reads, 'depends on the rank')}"


def comes_from(
    chains: ValueChains | None, lines: Mapping[int, Frame], argument: str, ranks: Sequence[int]
) -> tuple[Where, ...]:
    """Where the argument is written down, or read, that calls on these lines are given, if it is another line than theirs."""
    each = [chains.of(line, argument) for line in dict.fromkeys(lines.values())] if chains is not None else []
    origins = {one.origin for one in each if one is not None and one.origin is not None}
    if len(origins) != 1 or len(each) != 1:
        return ()
    (origin,) = origins
    if any((line.file, line.line) == (origin.file, origin.line) for line in lines.values()):
        return ()
    return at_ranks(origin, ranks, f"`{origin.text}` is what the sampler gets as {argument}")


def made_for(chains: ValueChains | None, lines: Mapping[int, Frame], ranks: Sequence[int]) -> tuple[Where, ...]:
    """Where the data loader is made that loops on these lines go over."""
    each = {chains.of(line, LOADER) for line in lines.values()} if chains is not None else set()
    made = each.pop() if len(each) == 1 else None
    return at_ranks(made.origin, ranks, f"`{made.origin.text}`") if made is not None and made.origin is not None else ()


def at_ranks(line: CodeLine, ranks: Sequence[int], note: str) -> tuple[Where, ...]:
    """A line of the program, on each of these ranks; of no rank in particular where there are none."""
    return tuple(Where.at(line.frame, rank=rank, note=note) for rank in ranks or (None,))


def built_by(model: ShardedModel, ranks: Sequence[int]) -> tuple[Where, ...]:
    """Where a model is built, and first what seeds each rank in its own way before it."""
    seeded = at_ranks(model.seed, ranks, f"`{model.seed.text}` depends on the rank") if model.seed is not None else ()
    return (*seeded, *at_ranks(model.made, ranks, f"`{model.made.text}` builds the model"))


def only_write(
    chains: ValueChains | None, into: str, tensors: Collection[str], ranks: Sequence[int]
) -> tuple[Where, ...]:
    """The only statement found that writes into these tensors and depends on the process, for these ranks, or for none.

    A statement that does not depend on the process writes the same on all ranks.
    """
    parts = {tensor.rpartition(".")[2] for tensor in tensors}
    possible = [one for one in chains.into(into) if not one.names or parts & {*one.names}] if chains is not None else []
    found = [one for one in possible if one.by_process]
    if len(found) == 1:
        return at_ranks(found[0].at, ranks, f"`{found[0].at.text}`, {_only(into)}")
    calls = {one.called for one in found}
    call = calls.pop() if len(calls) == 1 else None
    return at_ranks(call, ranks, f"`{call.text}`: what it calls is {_only(into)}") if call is not None else ()


def _only(into: str) -> str:
    return f"the only statement found that writes {into} and depends on the process"

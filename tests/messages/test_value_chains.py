"""A line of the source comes first in a finding where it is the only one; where several may be it, what was seen stays first."""

from __future__ import annotations

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.value_chains import CodeLine, EpochCall, TensorWrite, ValueChain, ValueChains, argument_of
from ddpdoctor.messages.value_chains import comes_from, depends_on_process, only_write

MADE = Frame(file="train.py", line=9, function="main")


def line(number: int, text: str = "x") -> CodeLine:
    return CodeLine(file="train.py", line=number, function="main", text=text)


def chains(*writes: TensorWrite, **chain: CodeLine | None) -> ValueChains:
    return ValueChains(chains=(ValueChain(at=MADE, argument="lr", reads="rank", **chain),), writes=writes)  # type: ignore[arg-type]


def weights(number: int, *names: str, by_process: bool = False) -> TensorWrite:
    return TensorWrite(at=line(number), into="weights", names=names, by_process=by_process)


def lines(where) -> list[int]:
    return [one.line for one in where]


def test_the_test_that_decides_comes_before_what_it_asks_for() -> None:
    known = chains(test=line(4), entry=line(3))

    assert lines(depends_on_process(known, [MADE], "lr", (1,))) == [4, 3]
    assert lines(depends_on_process(chains(entry=line(3)), [MADE, MADE], "lr", (1, 2))) == [3, 3]


def test_lines_that_lead_to_other_places_decide_nothing() -> None:
    other = Frame(file="train.py", line=20, function="main")

    assert not depends_on_process(chains(entry=line(3)), [MADE, other], "lr", (1,))
    assert not depends_on_process(chains(), [MADE], "lr", (1,))
    assert not depends_on_process(None, [MADE], "lr", (1,))


def test_what_stands_on_the_line_itself_is_not_told_twice() -> None:
    assert lines(comes_from(chains(origin=line(3)), {0: MADE, 1: MADE}, "lr", (0, 1))) == [3, 3]
    assert not comes_from(chains(origin=line(9)), {0: MADE, 1: MADE}, "lr", (0, 1))


def test_the_only_statement_found_that_writes_a_tensor() -> None:
    """One that nothing makes depend on the process writes the same on all ranks, though no other was found."""
    one = chains(weights(5, by_process=True))

    (shown,) = only_write(one, "weights", ["net.weight"], (1,))
    assert (shown.line, shown.rank) == (5, 1)
    assert [where.rank for where in only_write(one, "weights", ["net.weight"], ())] == [None]
    assert not only_write(one, "buffers", ["net.weight"], (1,))
    assert not only_write(chains(weights(5)), "weights", ["net.weight"], (1,))


def test_of_several_statements_the_one_that_the_process_decides_about() -> None:
    several = chains(weights(5), weights(7, by_process=True))

    assert lines(only_write(several, "weights", ["net.weight"], (1,))) == [7]
    assert not only_write(chains(weights(5), weights(7)), "weights", ["net.weight"], (1,))
    both = chains(weights(5, by_process=True), weights(7, by_process=True))
    assert not only_write(both, "weights", ["net.weight"], (1,))


def test_a_statement_that_writes_tensors_of_other_names_does_not_count() -> None:
    known = chains(weights(5, "bias", by_process=True), weights(7, "weight", by_process=True))

    assert lines(only_write(known, "weights", ["net.0.weight", "net.1.weight"], (0,))) == [7]


def test_several_statements_of_one_function_are_its_only_call() -> None:
    each = [
        TensorWrite(at=line(number), into="copies", by_process=True, called=line(20, "update()")) for number in (5, 7)
    ]

    assert lines(only_write(chains(*each), "copies", (), (0,))) == [20]


def test_the_argument_that_gives_an_option() -> None:
    assert [argument_of(name) for name in ("lr", "initial_lr[1]", "number of parameters[0]")] == ["lr", "lr", "params"]
    assert EpochCall(at=line(2)).test is None

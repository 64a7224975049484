"""Whether two ranks are in one turn of every loop around both, by what their functions count."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.frames import Frame, is_users, program_frames
from ddpdoctor.evidence.source import CodePlace, Loop, SourceCode
from ddpdoctor.evidence.stacks import Stacks


def in_one_turn(one: Stacks, other: Stacks, code: SourceCode | None) -> bool:
    """Whether a name counts each loop that both ranks are in, and has one value on both.

    Both came by the same lines to the function in which they are at two lines, or from which their call paths differ. False where
    the source of one of these lines is not known.
    """
    paths = [program_frames(stacks.main.frames) if stacks.main is not None else () for stacks in (one, other)]
    if not all(paths) or code is None:
        return False
    started = all(_by_multiprocessing(stacks) for stacks in (one, other))  # the text of its command has no loop
    turns = [{(turn.frame, turn.loop): turn.turn for turn in stacks.turns} for stacks in (one, other)]
    users = 0
    for here, there in _shared(*paths):
        if here == there and here.file == "<string>" and started:
            users += is_users(here.file)
            continue
        places = code.at(here.file, here.line), code.at(there.file, there.line)
        mine, theirs = places
        if mine is None or theirs is None:
            return False
        for loop in _around_both(mine, theirs):
            known = [counted.get((users, loop.line)) for counted in turns]
            if not is_users(here.file) or known[0] is None or known[0] != known[1]:
                return False
        users += is_users(here.file)
    return True


def _by_multiprocessing(stacks: Stacks) -> bool:
    """Whether the outermost line is that by which multiprocessing starts a process."""
    outer = stacks.main.frames[-2:] if stacks.main is not None else ()
    return len(outer) > 1 and outer[0].function == "spawn_main" and outer[0].file.endswith("/multiprocessing/spawn.py")


def _shared(one: tuple[Frame, ...], other: tuple[Frame, ...]) -> Iterator[tuple[Frame, Frame]]:
    """The frames, outermost first, by which both reached the last function that both are in."""
    for here, there in zip(one, other, strict=False):
        if (here.file, here.function) != (there.file, there.function):
            return
        yield here, there
        if here.line != there.line:
            return


def _around_both(one: CodePlace, other: CodePlace) -> list[Loop]:
    return [loop for loop in one.loops if loop in other.loops]

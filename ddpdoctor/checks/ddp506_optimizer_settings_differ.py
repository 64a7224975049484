"""Learning rates and other settings that are not the same on all ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ddpdoctor.analysis.collectives.places.framework_requests import left_to_a_side, line_of
from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.steps import SettingsAt, SettingsDiffer
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import CodePlace, SourceCode
from ddpdoctor.evidence.value_chains import ValueChains, argument_of
from ddpdoctor.messages import value_chains
from ddpdoctor.messages.divergence import SHOWN, WRITE, finding, when
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import sides_sentence
from ddpdoctor.model import Finding, Rule, Severity, Where, Writer

RULE = Rule(
    code="DDP506",
    name="optimizer-settings-differ",
    summary="ranks step with different optimizer settings",
    severity=Severity.FAIL,
    shown_by="optimizer.param_groups differ between ranks: `ddpdoctor verify-sync`",
    remedy="configure the optimizer and its schedule with the same values on every rank; step the scheduler on all "
    "ranks, from a reduced metric",
    explains=("DDP503", "DDP507", "DDP509"),
    about_step=True,
    writer=Writer.BETWEEN_STEPS,
)


NOTES = {
    SettingsAt.THE_WRITE: "changes the setting",
    SettingsAt.GIVEN: "sets the value",
    SettingsAt.THE_STEP: "the optimizer step",
}


def check(divergences: Divergences, code: SourceCode | None, chains: ValueChains | None = None) -> Iterator[Finding]:
    """The first step taken with different settings, and where only the step is known, values there that depend on the rank."""
    for found in divergences.of(SettingsDiffer):
        doubt = tie_note(tied=found.tied)
        others = found.names[1:]
        more = f"; also different: {', '.join(others[:SHOWN])}{', ...' * (len(others) > SHOWN)}" if others else ""
        message = f"{when(found, divergences)}, {found.names[0]} is {sides_sentence(found.sides)}{more}{doubt}"
        cause = "given" if found.shown is SettingsAt.GIVEN else ""
        shown = finding(
            RULE, found, message, tensors=found.names, cause=cause, note=NOTES[found.shown],
            numbers={"shown": WRITE if found.shown is SettingsAt.THE_WRITE else ""},
        )  # fmt: skip
        by_rank: Iterable[Where] = ()
        chain = value_chains.depends_on_process(chains, found.lines.values(), argument_of(found.names[0]), found.ranks)
        if found.shown is SettingsAt.THE_STEP:
            by_rank = [*_by_rank(found, code)] or _written(found, code)
        elif found.shown is SettingsAt.GIVEN:
            by_rank = chain or (_given_by_rank(found, code) if code is not None else ())
        yield replace(shown, where=(*by_rank, *shown.where))


def _place(frame: Frame, code: SourceCode) -> CodePlace | None:
    """The line, or the last one known of its function."""
    known = (place for place in reversed(code.places) if (place.file, place.function) == (frame.file, frame.function))
    return code.at(frame.file, frame.line) or next(known, None)


def _given_by_rank(found: SettingsDiffer, code: SourceCode) -> Iterator[Where]:
    """Values with the name of the setting that depend on the rank, where others than the lines that set it write them.

    These may are in a caller, or where the arguments are put together that a framework makes the optimizer of.
    """
    name = re.compile(rf"\b(?:{'|'.join(map(re.escape, _names(found.names[0])))})\b")
    known = {(line.file, line.line) for line in found.lines.values()}
    values = {
        (place.file, value.line): Where(
            rank=None,
            file=place.file,
            line=value.line,
            function=place.function,
            note=f"`{value.text}` depends on the rank",
        )
        for place in code.places
        for value in place.rank_values
        if any(map(name.search, (value.keyword, *value.targets, *([value.text] if value.compares else []))))
    }
    for at, where in values.items():
        if at not in known:
            yield from (replace(where, rank=rank) for rank in found.ranks)


def _names(setting: str) -> tuple[str, ...]:
    """What programs call a setting: `lr` and `learning_rate`."""
    plain = setting.partition("[")[0].removeprefix("initial_")
    return ("lr", "learning_rate") if plain == "lr" else (plain,)


def _by_rank(found: SettingsDiffer, code: SourceCode | None) -> Iterator[Where]:
    """Values with the name of the setting that depend on the rank, in the function that makes the step."""
    name = re.compile(rf"\b{re.escape(found.names[0].partition('[')[0])}\b")
    for rank in found.ranks:
        frame = found.lines.get(rank)
        place = _place(frame, code) if code is not None and frame is not None else None
        for value in place.rank_values if place is not None else ():
            texts = (*value.targets, value.text) if value.compares else value.targets
            if frame is not None and value.line <= frame.line and any(map(name.search, texts)):
                at = frame.at_line(value.line)
                yield Where.at(at, rank=rank, note=f"`{value.text}` depends on the rank")


def _written(found: SettingsDiffer, code: SourceCode | None) -> Iterator[Where]:
    """The statement that writes the setting: one that a test leaves to some ranks, as these are told apart, or the only one."""
    key = re.compile(rf"\[(['\"]){re.escape(found.names[0].partition('[')[0])}\1\]")
    writes = [asked for asked in (code.requests if code is not None else ()) if asked.wants == "setting"]
    by_request = {write: found.ranks for write in writes if key.search(write.text)}
    others = [rank for side in found.sides for rank in side.ranks if rank not in found.ranks]
    left = left_to_a_side(code, "setting", found.ranks, (found.ranks, others))
    by_some = {write: ranks for write, ranks in left.items() if write in by_request}
    candidates = by_some or by_request
    for write, ranks in candidates.items() if len(candidates) == 1 else ():
        yield from (Where.at(line_of(write), rank=rank, note=f"`{write.text}`") for rank in ranks)

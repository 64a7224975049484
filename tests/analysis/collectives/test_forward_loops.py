"""Which of the loops around a forward a rank can have left early."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.collectives.places.forward_loops import loop_of, loop_with_an_exit
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import Forward
from ddpdoctor.evidence.source import CodePlace, Jump, Loop, SourceCode

TRAIN = Frame(file="/job/train.py", line=84, function="train")
STEP = Frame(file="/job/trainer.py", line=40, function="train_step")
FORWARD = Forward(number=9, place=STEP, stack=(STEP, TRAIN))
SAMPLES = Loop(line=33, head="for sample in samples")


def around(*jumps: Jump) -> tuple[SourceCode, Loop]:
    """A loop over groups of samples, each of which a function of the trainer goes through."""
    groups = Loop(line=80, head="for samples in groups", jumps=jumps)
    places = (
        CodePlace(file=TRAIN.file, line=TRAIN.line, function="train", loops=(groups,)),
        CodePlace(file=STEP.file, line=STEP.line, function="train_step", loops=(SAMPLES,)),
    )
    return SourceCode(places=places), groups


@pytest.mark.parametrize("word", ["break", "return"])
def test_the_innermost_loop_with_an_exit_is_the_one_that_was_left(word: str) -> None:
    code, groups = around(Jump(line=89, word=word, test="updates == 20"))

    assert loop_with_an_exit(FORWARD, code) == (TRAIN, groups)
    assert loop_of(FORWARD, code) == (STEP, SAMPLES)


def test_without_an_exit_it_is_the_innermost() -> None:
    code, _ = around(Jump(line=82, word="continue"))

    assert loop_with_an_exit(FORWARD, code) == (STEP, SAMPLES)
    assert loop_with_an_exit(FORWARD, None) == (None, None)

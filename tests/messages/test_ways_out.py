"""What alone can have let ranks out of their loops early is shown; of several ways none is."""

import pytest

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Jump, Loop
from ddpdoctor.messages.ways_out import if_only_one
from tests.flight_records import TRAIN

RUN, ONE_EPOCH = (Frame(file=TRAIN, line=line, function=name) for line, name in ((29, "run"), (40, "one_epoch")))
STOPS = Loop(line=27, head="for epoch in epochs", jumps=(Jump(line=33, word="break", test="self.stop"),))
BATCHES = Loop(line=37, head="for features, target in self.loader", jumps=(Jump(line=39, word="continue"),))
RESUMED = Loop(line=65, head="for epoch in range(2 if resumed else 0, 5)")
UNTIL = Loop(line=12, head="while self.step + self.resumed < self.total")
RETURNS = Loop(line=37, head="for batch in loader", jumps=(Jump(line=38, word="return", test="batch is None"),))


@pytest.mark.parametrize(
    ("loops", "shown"),
    [
        ((STOPS, BATCHES), [(33, "`break` inside `if self.stop`")]),
        ((RESUMED, BATCHES), [(65, "the loop `for epoch in range(2 if resumed else 0, 5)`")]),
        ((UNTIL, BATCHES), [(12, "the loop `while self.step + self.resumed < self.total`")]),
        ((Loop(line=12, head="while True"), BATCHES), []),
        ((STOPS, RETURNS), []),
        ((Loop(line=65, head="for epoch in range(5)"), BATCHES), []),
        ((), []),
    ],
    ids=["break", "range", "a comparison", "nothing compared", "two ways", "a constant", "no loop"],
)
def test_the_only_way_out_of_loops(loops: tuple[Loop, ...], shown: list[tuple[int, str]]) -> None:
    left = zip((RUN, ONE_EPOCH), loops, strict=False)
    assert [(where.line, where.note) for where in if_only_one(left, (2,)) if where.rank == 2] == shown

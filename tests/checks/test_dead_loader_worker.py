"""A loader's worker that died raises in its rank at any line: DDP401 does not say that this line raised the exception."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from tests.rank_ends import LOST_PEER, TORCH, ended, raised

HANDLER = replace(
    TORCH, file=TORCH.file.replace("autograd/graph.py", "utils/data/_utils/signal_handling.py"), function="handler"
)


def note(*above: Frame) -> str:
    """What DDP401 says beside the line, where these frames stand above it."""
    failed = raised("DataLoader worker (pid 454) is killed by signal: Killed.")
    assert failed.error is not None
    stack = (*above, *failed.error.stack)
    (found,) = diagnose(ended(LOST_PEER, replace(failed, error=replace(failed.error, stack=stack)))).findings
    return found.where[0].note


def test_the_line_at_which_a_signal_came_is_not_said_to_have_raised() -> None:
    assert note(HANDLER) == "was here when the worker died"
    assert note() == "raised here"

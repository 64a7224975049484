"""Rules that `watch` asks in another process: it answers once, and what does not answer counts as something found."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ddpdoctor.ranks.processor_time import as_text
from ddpdoctor.workflows.watch.judging_process import JudgingProcess

DEADLINE_SECONDS = 90.0


def answer(process: JudgingProcess, *arguments: str) -> bool:
    """What it answers to `arguments`, once it has."""
    process.start(*arguments)
    found = process.needs_a_look(within=DEADLINE_SECONDS)
    assert not process.is_running
    return found


def test_a_job_in_which_nothing_is_slow_gives_no_reason_to_look(tmp_path: Path) -> None:
    with closing(JudgingProcess("slow_job_rules.py")) as process:
        assert not process.needs_a_look()
        assert not answer(process, str(tmp_path), as_text({}))


def test_a_process_that_fails_gives_a_reason_to_look_once(tmp_path: Path) -> None:
    with closing(JudgingProcess("slow_job_rules.py")) as process:
        assert answer(process, str(tmp_path), "no times")
        assert not process.needs_a_look()

"""For pytest: `--ddpdoctor-env` judges the machine before the tests run, fixtures compare replicas inside a test.

All are off unless asked for. Under a launcher (`torchrun --nproc-per-node 2 -m pytest ...`) every rank runs the test:

    def test_my_training_step(assert_in_sync):
        model, optimizer = train_three_steps()
        assert_in_sync(model, optimizer)

    def test_every_step(assert_training_in_sync):
        with assert_training_in_sync():
            train_three_steps()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from ddpdoctor.model import Report, Severity
from ddpdoctor.render import text

DEADLINE_SECONDS = 60.0  # for the other ranks of a launch, as in `ddpdoctor env`


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--ddpdoctor-env`."""
    parser.getgroup("ddpdoctor").addoption(
        "--ddpdoctor-env",
        action="store_true",
        help="judge this machine with `ddpdoctor env` first; a failing finding ends the session before any test",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Judge the machine where that was asked for.

    Raises:
        pytest.exit.Exception: a finding of severity fail; the report is its reason.
    """
    if not session.config.getoption("--ddpdoctor-env"):
        return
    report = _env()
    if report is not None and report.exit_code(Severity.FAIL) == 1:
        pytest.exit(f"ddpdoctor env:\n{text.render(report)}", returncode=pytest.ExitCode.TESTS_FAILED)


@pytest.fixture
def assert_in_sync() -> Callable[..., None]:
    """A function `(model, optimizer=None, group=None)` that fails the test on every rank where replicas differ.

    Every rank of the group must call it. The failure is ddpdoctor's report: tensor, element and ranks.
    """

    def check(model: Any, optimizer: Any = None, group: Any = None) -> None:  # noqa: ANN401 - torch's own types
        from ddpdoctor import verify_sync

        report = verify_sync(model, optimizer, group)
        if report.exit_code(Severity.FAIL) != 0:
            pytest.fail(text.render(report), pytrace=False)

    return check


@pytest.fixture
def assert_training_in_sync() -> Callable[..., AbstractContextManager[None]]:
    """A context `(*models, every=1)` around training; the test fails on every rank where replicas diverge or a cause shows.

    `models` are those wrapped before the context; every rank must enter it. The failure is ddpdoctor's report: step, cause,
    tensor, ranks and line.
    """

    @contextmanager
    def followed(*models: Any, every: int = 1) -> Iterator[None]:  # noqa: ANN401 - torch's own types
        from ddpdoctor import track

        with track(*models, every=every) as tracked:
            yield
        if tracked.report.exit_code(Severity.FAIL) != 0:
            pytest.fail(text.render(tracked.report), pytrace=False)

    return followed


def _env() -> Report | None:
    """What `ddpdoctor env` says, or None on a rank that does not speak."""
    from ddpdoctor.engine import diagnose
    from ddpdoctor.host.host_access import HostAccess
    from ddpdoctor.redaction import redact
    from ddpdoctor.workflows.env import collect

    evidence = collect(HostAccess(), deadline_seconds=DEADLINE_SECONDS)
    return None if evidence is None else diagnose(redact(evidence))

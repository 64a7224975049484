"""The debug level of a watched rank: ours where the job has set none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch.distributed import DebugLevel, get_debug_level, set_debug_level

from ddpdoctor.agent.inside import watch_feature

VARIABLE = "TORCH_DISTRIBUTED_DEBUG"


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    before = get_debug_level()
    set_debug_level(DebugLevel.OFF)
    yield
    set_debug_level(before)


def test_a_rank_gets_our_level_and_not_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    watch_feature._set_debug_level("INFO")

    assert get_debug_level() == DebugLevel.INFO
    assert watch_feature._debug_level() == "INFO"


@pytest.mark.parametrize(("value", "level"), [("OFF", DebugLevel.OFF), ("DETAIL", DebugLevel.DETAIL)])
def test_what_the_job_has_set_is_kept(monkeypatch: pytest.MonkeyPatch, value: str, level: DebugLevel) -> None:
    monkeypatch.setenv(VARIABLE, value)
    set_debug_level(level)

    watch_feature._set_debug_level("INFO")

    assert get_debug_level() == level


def test_a_level_that_the_job_has_set_in_python_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    set_debug_level(DebugLevel.DETAIL)

    watch_feature._set_debug_level("INFO")

    assert get_debug_level() == DebugLevel.DETAIL

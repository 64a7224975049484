"""Every planted mistake is named at its line, and no healthy program gets a warning, whatever its style."""

from __future__ import annotations

import pytest

from ddpdoctor.model import Severity
from tests.planted_programs import Planted, planted

SICK = planted("sick*.txt")
HEALTHY = planted("healthy*.txt")


@pytest.mark.parametrize("program", SICK, ids=[each.name for each in SICK])
def test_a_planted_mistake_is_named_and_nothing_else_is(program: Planted) -> None:
    """The planted line has one of its codes, and no other rule warns of the program."""
    found = program.findings()

    for file, line, codes in program.mistakes:
        assert any(each.code in codes and (file, line) in {(w.file, w.line) for w in each.where} for each in found)
    planted_codes = {code for _, _, codes in program.mistakes for code in codes}
    assert not [each.message for each in found if each.severity is not Severity.INFO and each.code not in planted_codes]


@pytest.mark.parametrize("program", HEALTHY, ids=[each.name for each in HEALTHY])
def test_a_healthy_program_gets_no_warning(program: Planted) -> None:
    """Whatever looks like a mistake in it is none."""
    assert not [each.message for each in program.findings() if each.severity is not Severity.INFO]

"""Each fault is a short program that shows its sick line and is named after its rule."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ddpdoctor.catalogue import all_rules
from ddpdoctor.errors import UsageError
from ddpdoctor.launch.sick_jobs import faults, find_fault

FAULTS = faults()


@pytest.mark.parametrize("path", FAULTS.values(), ids=lambda path: path.stem)
def test_a_fault_is_short_and_marks_its_sick_line(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= 60
    assert "# sick" in source
    assert (ast.get_docstring(ast.parse(source)) or "").startswith(f"{path.name[:6].upper()}: ")


@pytest.mark.parametrize("rule", [rule for rule in all_rules() if rule.code in FAULTS], ids=lambda rule: rule.code)
def test_a_fault_is_named_after_its_rule(rule) -> None:
    assert FAULTS[rule.code].stem == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"


def test_a_fault_is_found_by_code_and_by_name() -> None:
    assert find_fault("ddp401") == find_fault("rank-raised") == FAULTS["DDP401"]


def test_an_unknown_fault_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="'rank-raise' is not a fault") as caught:
        find_fault("rank-raise")
    assert caught.value.hint.startswith("did you mean rank-raised?")

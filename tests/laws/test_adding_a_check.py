"""The examples of docs/adding-a-check.md are true: the complete one is judged like every rule, the others stand in the tree."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor import checks
from ddpdoctor.catalogue import all_checks
from tests.laws import test_catalogue as catalogue

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-a-check.md").read_text()
NAMED = dict(re.findall(r"^```python\n# ([\w./]+\.py)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
NEW = {path: code for path, code in NAMED.items() if not (ROOT / path).exists()}
(STEM,) = {Path(path).stem for path in NEW}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example's rule beside the real ones, and its cases where the catalogue looks for them."""
    rules, cases = tmp_path / "checks", tmp_path / "cases.py"
    rules.mkdir()
    (rules / f"{STEM}.py").write_text(NEW[f"ddpdoctor/checks/{STEM}.py"])
    cases.write_text(NEW[f"tests/checks/{STEM}.py"])
    spec = importlib.util.spec_from_file_location("cases_of_the_example", cases)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(catalogue, "example", lambda _stem: module)
    monkeypatch.setattr(checks, "__path__", [*checks.__path__, str(rules)])
    all_checks.cache_clear()
    yield
    all_checks.cache_clear()
    sys.modules.pop(f"ddpdoctor.checks.{STEM}", None)


@pytest.mark.usefixtures("installed")
def test_the_new_rule_is_found_without_any_other_change() -> None:
    (check,) = [check for check in all_checks() if check.rule.code == STEM[:6].upper()]
    assert f"{check.rule.code.lower()}_{check.rule.name.replace('-', '_')}" == STEM
    catalogue.test_rule_is_well_worded(check)
    catalogue.test_facts_about_a_host_are_background_and_steps_are_named(check.rule)
    catalogue.test_no_two_rules_explain_each_other()


@pytest.mark.usefixtures("installed")
def test_its_sick_and_healthy_cases_hold() -> None:
    catalogue.test_sick_evidence_gives_this_code_and_no_other(STEM)
    catalogue.test_healthy_twin_gets_silence(STEM)


def test_its_page_has_the_sections_of_every_page() -> None:
    (page,) = re.findall(r"^```markdown\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    code, name = STEM[:6].upper(), STEM[7:].replace("_", "-")
    assert re.findall(r"^#.*$", page, flags=re.MULTILINE) == [f"# {code} {name}", *catalogue.SECTIONS]


def shape(source: str) -> str:
    """The code of `source` without what its texts say: a sentence may be worded better without another look at this page."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
        elif isinstance(node, ast.JoinedStr):
            node.values = [value for value in node.values if isinstance(value, ast.FormattedValue)]
    return ast.dump(tree)


@pytest.mark.parametrize("path", [path for path in NAMED if path not in NEW])
def test_a_rule_that_the_page_shows_is_the_one_in_the_tree(path: str) -> None:
    assert shape(NAMED[path]) == shape((ROOT / path).read_text()), f"copy {path} into docs/adding-a-check.md again"


def test_texts_may_change_and_code_may_not() -> None:
    assert shape("f(f'rank {rank} waits', 1)") == shape("f(f'{rank} is late', 1)")
    assert shape("f(f'rank {rank} waits', 1)") != shape("f(f'rank {peer} waits', 1)")

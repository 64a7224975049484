"""The catalogue keeps its promises: every rule has its file, its page, its fault and its healthy twin."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from ddpdoctor.catalogue import all_checks, all_rules
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Crashed, Ran, Severity, Skipped, Writer
from ddpdoctor.redaction import redact
from tests.checks import as_json, close_to, place_text

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "findings"
SECTIONS = ("## What it means", "## How it is found", "## What to do", "## Reproduce it")
CODES = [rule.code for rule in all_rules()]
FILES = {path.stem: path for path in sorted((ROOT / "ddpdoctor" / "checks").glob("ddp*.py"))}


def example(stem: str) -> ModuleType:
    path = ROOT / "tests" / "checks" / f"{stem}.py"
    assert path.exists(), (
        f"the rule in ddpdoctor/checks/{stem}.py has no {path.relative_to(ROOT)} with SICK and HEALTHY"
    )
    spec = importlib.util.spec_from_file_location(f"example_{stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_codes_and_names_are_unique_and_well_formed() -> None:
    names = [rule.name for rule in all_rules()]
    assert len(set(CODES)) == len(CODES)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"DDP[1-7]\d\d", code) for code in CODES)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_every_file_is_named_after_its_rule() -> None:
    expected = {f"{rule.code.lower()}_{rule.name.replace('-', '_')}" for rule in all_rules()}
    assert set(FILES) == expected


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.rule.code)
def test_rule_is_well_worded(check) -> None:
    rule = check.rule
    assert rule.summary[0].islower() or rule.summary.split()[0].isupper() or not rule.summary[0].isalpha(), rule.summary
    assert not rule.summary.endswith(".")
    assert len(rule.remedy) > 15, "the remedy must say what to do"
    assert check.inputs, "a check declares its evidence by annotated parameters"
    assert check.function.__doc__, "check() says what it finds"
    unknown = set(rule.explains) - set(CODES)
    assert rule.code not in rule.explains
    for code in unknown:
        assert re.fullmatch(r"DDP[1-7]\d\d", code)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_facts_about_a_host_are_background_and_steps_are_named(rule) -> None:
    """A rule of the first family that is not background would outrank what a running job shows."""
    assert rule.background == (rule.code.startswith("DDP1") or rule.code == "DDP603")
    assert rule.writer is Writer.NOT_SOUGHT or rule.about_step


def test_no_two_rules_explain_each_other() -> None:
    explains = {rule.code: set(rule.explains) for rule in all_rules()}

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        return any(
            code == goal or (code not in seen and reaches(code, goal, seen | {code}))
            for code in explains.get(start, ())
        )

    assert not [code for code in explains if reaches(code, code, set())]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_has_its_page(rule) -> None:
    page = (PAGES / f"{rule.code}.md").read_text()
    assert page.startswith(f"# {rule.code} {rule.name}\n")
    positions = [page.find(f"\n{section}\n") for section in SECTIONS]
    assert all(position > 0 for position in positions), f"sections missing: {positions}"
    assert positions == sorted(positions)


def test_no_page_without_a_rule() -> None:
    assert {path.stem for path in PAGES.glob("DDP*.md")} == set(CODES)


@pytest.mark.parametrize("stem", FILES, ids=lambda stem: stem[:6].upper())
def test_sick_evidence_gives_this_code_and_no_other(stem: str) -> None:
    sick = example(stem).SICK
    assert sick, "at least one fault"
    for case in sick:
        report = diagnose(redact(case.evidence))
        assert not report.crashed, report.crashed
        first, *others = report.findings
        assert first.code == stem[:6].upper(), [(finding.code, finding.message) for finding in report.findings]
        assert first.message == case.says
        assert first.ranks == case.ranks
        assert first.hosts == case.hosts
        assert tuple(map(place_text, first.where)) == case.where
        assert as_json(first.measured) == close_to(as_json(case.measured))
        assert first.severity is (case.severity or first.rule.severity)
        strangers = [finding for finding in others if finding.code != first.code]
        assert sorted({finding.code for finding in strangers}) == sorted(case.also), [f.message for f in strangers]
        assert all(finding.explained_by for finding in strangers)


@pytest.mark.parametrize("stem", FILES, ids=lambda stem: stem[:6].upper())
def test_healthy_twin_gets_silence(stem: str) -> None:
    healthy = example(stem).HEALTHY
    assert healthy, "at least one healthy twin"
    for evidence in healthy:
        report = diagnose(redact(evidence))
        assert not report.crashed, report.crashed
        assert not report.findings, [(finding.code, finding.message) for finding in report.findings]
        outcome = next(outcome for outcome in report.outcomes if outcome.rule.code == stem[:6].upper())
        assert isinstance(outcome, Ran), f"the healthy twin was not looked at: {outcome}"


def test_without_evidence_every_rule_is_skipped_with_a_reason() -> None:
    report = diagnose(Evidence())
    assert len(report.outcomes) == len(CODES)
    assert all(isinstance(outcome, Skipped) and outcome.reason for outcome in report.outcomes), [
        outcome for outcome in report.outcomes if isinstance(outcome, Ran | Crashed)
    ]
    assert report.exit_code(Severity.FAIL) == 3

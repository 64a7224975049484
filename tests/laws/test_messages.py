"""What a user reads is in the terms of the glossary, and no class name of ours is in a rule, a skip reason or a finding."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

import ddpdoctor
from ddpdoctor.catalogue import all_rules
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, kinds, noun_of
from ddpdoctor.model import Skipped
from tests.laws.test_catalogue import FILES, example
from tests.laws.test_wording import replaced_in

OURS = {
    name
    for package in ("evidence", "analysis")
    for module in walk_packages(import_module(f"ddpdoctor.{package}").__path__, f"ddpdoctor.{package}.")
    for name, value in vars(import_module(module.name)).items()
    if isinstance(value, type) and value.__module__.startswith(ddpdoctor.__name__)
}
COMPOUND = {name for name in OURS if re.search(r"[a-z][A-Z]", name)} - {"SourceLine"}


def class_names(text: str) -> set[str]:
    """Our class names in `text`: those of two words anywhere, those of one word where they stand as a thing's name."""
    single = OURS.intersection(re.findall(r"\b(?:no|of|and) (\w+)\b(?! )", text)) - {"Python"}
    return COMPOUND.intersection(re.findall(r"\w+", text)) | single


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_every_kind_of_evidence_has_a_noun_for_messages(kind: str) -> None:
    noun = noun_of(kind)
    assert noun
    assert noun != kind
    assert not noun.endswith(".")


def test_a_skipped_rule_names_the_missing_evidence_in_the_users_words() -> None:
    reasons = {outcome.reason for outcome in diagnose(Evidence()).outcomes if isinstance(outcome, Skipped)}
    assert "no flight-recorder dump in the evidence" in reasons
    assert not {reason: names for reason in reasons if (names := class_names(reason) or replaced_in(reason))}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_is_in_the_terms_of_the_glossary(rule) -> None:
    text = f"{rule.summary}\n{rule.remedy}"
    assert not class_names(text)
    assert not replaced_in(text)


@pytest.mark.parametrize("stem", FILES, ids=lambda stem: stem[:6].upper())
def test_a_finding_is_in_the_terms_of_the_glossary(stem: str) -> None:
    for case in example(stem).SICK:
        for finding in diagnose(case.evidence).findings:
            notes = [place.note for place in finding.where]
            text = "\n".join([finding.message, finding.remedy, *finding.details, *notes])
            assert not class_names(text)
            assert not replaced_in(text)

"""The engine: declared inputs, three kinds of answer, and one cause as the headline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from ddpdoctor import catalogue, engine
from ddpdoctor.catalogue import Check, all_rules
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, Missing, PerRank, RankFacts
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.model import Crashed, Finding, Ran, Rule, Severity, SkipCheck, Skipped, Where, group_ranks
from tests.hangs import hang, rank, stack
from tests.rank_ends import LOST_PEER, ended, raised
from tests.waiting import PROGRAM_SECONDS


@dataclass(frozen=True)
class Pulse:
    beats: int


@dataclass(frozen=True)
class Notes:
    text: str


@pytest.fixture(autouse=True)
def _errors_of_all_rules() -> None:
    """The texts of errors are kept once they are asked for: not those of the few rules that a test has."""
    catalogue.error_table()


def rule(code: str, *, explains: tuple[str, ...] = (), severity: Severity = Severity.FAIL) -> Rule:
    return Rule(
        code=code, name=f"rule-{code[3:]}", summary="x", severity=severity, remedy="do something", explains=explains
    )


def judged(monkeypatch: pytest.MonkeyPatch, evidence: Evidence, *functions_by_rule) -> engine.Report:
    checks = tuple(Check(rule, function, catalogue.declared_inputs(function)) for rule, function in functions_by_rule)
    monkeypatch.setattr(engine, "all_checks", lambda: checks)
    return diagnose(evidence)


def two_ranks(*beats: int) -> Evidence:
    return Evidence(
        ranks=tuple(RankFacts(rank=rank, host="host-a", facts=(Pulse(beat),)) for rank, beat in enumerate(beats))
    )


def test_a_check_gets_what_it_declares_and_optional_evidence_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def check(pulse: PerRank[Pulse], notes: Notes | None) -> Iterator[Finding]:
        seen.append(([entry.value.beats for entry in pulse], notes))
        yield from ()

    report = judged(monkeypatch, two_ranks(60, 70), (rule("DDP101"), check))
    assert seen == [([60, 70], None)]
    assert isinstance(report.outcomes[0], Ran)
    assert report.exit_code(Severity.FAIL) == 0


def test_missing_evidence_is_skipped_with_the_collectors_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(pulse: PerRank[Pulse]) -> Iterator[Finding]:
        yield from ()

    evidence = Evidence(missing=(Missing(kind="Pulse", reason="the patient has no wrist"),))
    report = judged(monkeypatch, evidence, (rule("DDP101"), check))
    assert report.outcomes == (Skipped(rule("DDP101"), "no Pulse: the patient has no wrist"),)
    assert report.exit_code(Severity.FAIL) == 3


def test_a_check_that_breaks_is_shown_and_silences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, sound = rule("DDP101"), rule("DDP102", severity=Severity.WARN)

    def breaks(pulse: PerRank[Pulse]) -> Iterator[Finding]:
        raise ZeroDivisionError("by zero")

    def finds(pulse: PerRank[Pulse]) -> Iterator[Finding]:
        yield sound.finding("something", ranks=(1,))

    def skips(pulse: PerRank[Pulse]) -> Iterator[Finding]:
        raise SkipCheck("cannot tell")

    report = judged(monkeypatch, two_ranks(1), (broken, breaks), (sound, finds), (rule("DDP103"), skips))
    assert isinstance(report.outcomes[0], Crashed)
    assert "ZeroDivisionError: by zero" in report.outcomes[0].error
    assert report.outcomes[2] == Skipped(rule("DDP103"), "cannot tell")
    assert [finding.code for finding in report.findings] == ["DDP102"]
    assert report.exit_code(Severity.FAIL) == 4
    assert report.exit_code(Severity.WARN) == 1


def test_a_loop_that_a_rank_seems_to_have_left_behind_a_call_with_two_dtypes_is_no_cause() -> None:
    """Of a call that fails on some ranks, gloo lets one go on: it makes a further forward than its peers."""
    assert "DDP306" in next(one for one in all_rules() if one.code == "DDP303").explains


def test_the_cause_is_the_headline_and_its_symptoms_are_folded_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    symptom, cause = rule("DDP301"), rule("DDP402", explains=("DDP301",))

    def sees_symptom(pulse: PerRank[Pulse]) -> Iterator[Finding]:
        yield symptom.finding("ranks 0,2 wait", ranks=(0, 2))

    def sees_cause(pulse: PerRank[Pulse]) -> Iterator[Finding]:
        yield cause.finding("rank 1 was killed", ranks=(1,))

    report = judged(monkeypatch, two_ranks(1), (symptom, sees_symptom), (cause, sees_cause))
    assert [(finding.code, finding.explained_by) for finding in report.findings] == [
        ("DDP402", None),
        ("DDP301", "DDP402"),
    ]


def test_what_another_rank_raised_is_no_consequence_of_a_rank_out_of_range() -> None:
    refused = raised("[enforce fail at gloo/context.cc:23] rank < size. 1 vs 1")
    report = diagnose(ended(raised("no such file", "FileNotFoundError"), refused))
    assert [(one.code, one.ranks, one.explained_by) for one in report.findings] == [
        ("DDP208", (1,), None),
        ("DDP401", (0,), None),
    ]


def test_facts_about_the_host_are_background_beside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    host = replace(rule("DDP101"), background=True)

    def sees(pulse: PerRank[Pulse]) -> Iterator[Finding]:
        yield host.finding("small disk")

    evidence = Evidence(ranks=two_ranks(1).ranks, about_job=True)
    (finding,) = judged(monkeypatch, evidence, (host, sees)).findings
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("ranks", "said"),
    [((), "no rank"), ((3,), "rank 3"), ((5, 0, 1, 2), "ranks 0-2,5"), ((1, 2), "ranks 1-2"), ((7, 7), "rank 7")],
)
def test_ranks_are_written_as_people_write_them(ranks: tuple[int, ...], said: str) -> None:
    assert group_ranks(ranks) == said


def test_a_standstill_that_nothing_explains_is_undecided_and_says_what_was_not_seen() -> None:
    stood = hang(rank(), rank(), rank())
    half = replace(stood, job=(*stood.job, JobSize(ranks=6)), missing=(Missing(kind="Stacks", rank=2, reason="gone"),))
    report = diagnose(half)
    assert (report.findings, report.exit_code(Severity.FAIL)) == ((), 3)
    said, waiting = report.undecided
    assert waiting.startswith("ranks 0-2: each waits in a collective (backward) at /job/train.py:61 in train_step")
    assert said == "no progress for 6 s; the evidence does not explain it. Missing: stacks of rank 2 (gone)"
    assert diagnose(hang(rank(), rank(stack()), rank())).undecided == ()  # DDP307 explains it


def test_where_only_ranks_on_other_nodes_can_have_failed_first_it_is_said_whose_word_is_missing() -> None:
    half = ended(LOST_PEER, LOST_PEER, job=(JobSize(ranks=4),))
    report = diagnose(half)
    assert (report.findings, report.exit_code(Severity.FAIL)) == ((), 3)
    (said,) = report.undecided
    assert said.startswith("ranks 0-1 lost a peer, and there is no evidence of ranks 2-3 of 4: add the log")
    assert (
        diagnose(ended(raised("disk full"), LOST_PEER, job=(JobSize(ranks=4),))).undecided == ()
    )  # DDP401 explains it


def test_parts_of_the_evidence_are_judged_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that looked at one part has looked, one that crashed in one has crashed, and no place is named twice."""

    def named(line: int) -> Finding:
        return found.finding("here", where=(Where(rank=None, file="a.py", line=line, function="f"),))

    found, gone, broken = rule("DDP101"), rule("DDP102"), rule("DDP103")
    checks = tuple(Check(each, lambda: iter(()), ()) for each in (found, gone, broken))
    monkeypatch.setattr(engine, "all_checks", lambda: checks)
    parts = (
        (Skipped(found, "nothing here"), Skipped(gone, "none"), Ran(broken, ())),
        (Ran(found, (named(1), named(1))), Skipped(gone, "none either"), Crashed(broken, "x")),
        (Ran(found, (named(2), named(1))), Skipped(gone, "none"), Ran(broken, ())),
    )
    report = diagnose(Evidence(), judged=parts)
    assert report.outcomes == (
        Ran(found, (named(1), named(1), named(2))),
        Skipped(gone, "none"),
        Crashed(broken, "x"),
    )


def test_only_rules_about_a_kind_are_asked_about_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_notes(_notes: Notes | None) -> Iterator[Finding]:
        yield from ()

    def of_pulse(_pulse: PerRank[Pulse]) -> Iterator[Finding]:
        yield from ()

    checks = tuple(
        Check(rule(code), function, catalogue.declared_inputs(function))
        for code, function in (("DDP101", of_notes), ("DDP102", of_pulse))
    )
    monkeypatch.setattr(engine, "all_checks", lambda: checks)
    asked = [each.rule.code for each in engine.outcomes_about(Pulse, two_ranks(60))]
    assert asked == ["DDP102"]


def test_rules_that_are_not_asked_for_are_not_imported() -> None:
    """`watch` asks a few rules about a healthy job, in a process of its own beside the ranks: it takes what an import takes."""
    program = (
        "import sys\nfrom ddpdoctor.engine import all_checks\n"
        "print(*(check.rule.code for check in all_checks('DDP601', 'DDP52')))\n"
        "print(len([name for name in sys.modules if name.startswith('ddpdoctor.checks.')]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PROGRAM_SECONDS
    )
    codes, imported = ran.stdout.splitlines()
    asked = [rule.code for rule in catalogue.all_rules() if rule.code == "DDP601" or rule.code.startswith("DDP52")]
    assert codes.split() == asked
    assert int(imported) == len(asked)

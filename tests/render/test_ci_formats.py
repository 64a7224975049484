"""What CI systems read: JUnit, GitHub annotations, markdown."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from ddpdoctor.model import Severity
from ddpdoctor.render import github, junit, markdown
from tests.render import HEALTHY, REPORT


def test_junit_tells_failed_skipped_and_crashed_apart() -> None:
    suite = ET.fromstring(junit.render(REPORT, suite="ddpdoctor env"))
    assert suite.attrib == {
        "name": "ddpdoctor env", "tests": "5", "failures": "1", "errors": "2", "skipped": "1",
    }  # fmt: skip
    by_name = {case.attrib["name"]: case for case in suite}
    failure = by_name["DDP305 collective-called-by-some"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "rank 0 called broadcast #41 that ranks 1-3 never call"
    assert "ranks 1-3  train.py:61 in train_step  all_reduce #41" in (failure.text or "")
    assert by_name["DDP408 collective-timed-out"].find("failure") is None
    assert by_name["DDP127 gpu-memory-errors"].find("skipped") is not None
    assert len(by_name) == 5  # not the check that nobody tried


def test_junit_fails_on_warnings_when_asked() -> None:
    suite = ET.fromstring(junit.render(REPORT, fail_on=Severity.WARN))
    assert suite.attrib["failures"] == "2"


def test_github_annotates_the_users_line_and_escapes() -> None:
    first, second, undecided, crashed, summary = github.render(REPORT).splitlines()
    assert first.startswith("::error file=train.py,line=88,title=DDP305 collective-called-by-some::rank 0 called")
    assert "%0Aranks 1-3 train.py:61 in train_step all_reduce #41%0A" in first
    assert second.startswith("::warning title=DDP408 collective-timed-out::3 ranks timed out%0A| after 600 s")
    assert undecided == "::error title=ddpdoctor undecided::rank 7 never answered"
    assert crashed.startswith("::error title=DDP184 crashed::")
    assert summary == "ddpdoctor: 1 fail, 1 warn (2 checks ran, 1 skipped, 1 crashed)"


def test_markdown_is_a_list_with_the_facts_as_a_table() -> None:
    page = markdown.render(REPORT, title="ddpdoctor env", facts=[("torch", "2.13.0"), ("a|b", "<x>")])
    assert page.startswith("### ddpdoctor env: 1 fail, 1 warn (2 checks ran, 1 skipped, 1 crashed)\n")
    assert "- **DDP305 collective-called-by-some** (fail): rank 0 called broadcast #41" in page
    assert "  - ranks 1-3 `train.py:61 in train_step` all_reduce #41" in page
    assert "| a\\|b | &lt;x> |" in page
    assert markdown.render(HEALTHY) == "### ddpdoctor: no findings (2 checks ran, 0 skipped)\n"


def test_markdown_leaves_code_as_it_stands_and_escapes_what_is_none() -> None:
    """Between backticks an escape would be shown: a reader would copy it."""
    code = '`int(os.environ["RANK"])`'
    for text, shown in {
        f"use {code} <b>": f"use {code} &lt;b>",
        "a [link](x) `<i>`": "a \\[link](x) `<i>`",
        "no ` pair [x]": "no ` pair \\[x]",
        "``[x]`` <b>": "``\\[x]`` &lt;b>",
        "\\`<b>`": "\\`&lt;b>`",
    }.items():
        assert f"- note: {shown}\n" in markdown.render(replace(HEALTHY, notes=(text,)))

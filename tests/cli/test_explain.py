"""`ddpdoctor explain` as a user meets it: a code, a text, a file, stdin, and mistakes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddpdoctor import cli

EXCERPT = (
    "Traceback (most recent call last):\n"
    '  File "/home/ana/fit.py", line 3, in <module>\n'
    "    fit()\n"
    "ValueError: \x1b[31mbad\x1b[0m\x07 shard \x1b]0;title\x07 7\n"
)


def first_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.partition("\n")[0]


def test_a_text_in_one_argument_or_in_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "exit code -9"]) == 0
    quoted = first_line(capsys)
    assert cli.run(["explain", "exit", "code", "-9"]) == 0
    assert quoted == first_line(capsys)
    assert quoted.startswith("1. DDP402 rank-out-of-memory-killed: ")


def test_a_code_without_its_letters_shows_the_page_and_other_numbers_stay_texts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["explain", "305"]) == 0
    assert first_line(capsys) == "DDP305 collective-called-by-some"
    assert cli.run(["explain", "139"]) == 0
    assert first_line(capsys).startswith("1. DDP403 ")


def test_a_file_and_stdin_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "excerpt.log"
    file.write_text(EXCERPT)
    assert cli.run(["explain", str(file)]) == 0
    of_file = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(EXCERPT.encode())))
    assert cli.run(["explain", "-"]) == 0
    assert capsys.readouterr().out == of_file
    assert of_file.startswith("1. DDP401 rank-raised: ")
    assert "\x1b" not in of_file
    assert "\x07" not in of_file


def test_json_has_every_match_and_is_there_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "--format", "json", "connection closed by peer"]) == 0
    document = json.loads(capsys.readouterr().out)
    codes = [match["code"] for match in document["matches"]]
    assert document["schema"] == "ddpdoctor.explanation/1"
    assert codes[0] == "DDP401"
    assert {"DDP402", "DDP403", "DDP306"} <= {*codes}
    assert all(match["shown_by"] and match["remedy"] and match["seen_as"] for match in document["matches"])
    assert cli.run(["explain", "--format", "json", "lorem ipsum"]) == 3
    assert json.loads(capsys.readouterr().out)["matches"] == []


def test_json_of_a_code_has_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "ddp305", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["code"] == "DDP305"
    assert document["page"].startswith("# DDP305 ")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["lorem ipsum"], 3, "resembles no symptom"),
        ([""], 2, "the text is empty"),
        (["--fromat", "json"], 2, "no such option: --fromat"),
        (["missing.log"], 2, "missing.log does not exist"),
        (["."], 2, ". is a directory"),
        (["--index", "hang"], 2, "'hang' would not be looked up"),
        (["rank-rasied"], 2, "did you mean rank-raised?"),
        (["ddp999"], 2, "'ddp999' is not a code"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["explain", *words]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert "ddpdoctor" in captured.err.partition("\n")[2] or "quotes" in captured.err
    assert captured.out == ""


def test_a_case_is_sent_to_diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "case.json"
    file.write_text('{"schema": "ddpdoctor.case/1", "evidence": {}}')
    assert cli.run(["explain", str(file)]) in {2, 3}
    assert "ddpdoctor diagnose" in capsys.readouterr().err


def test_binary_data_and_a_link_to_nothing_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A word of their names or bytes would resemble some symptom."""
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "hangs").symlink_to(tmp_path / "nothing")
    assert cli.run(["explain", str(tmp_path / "binary")]) == 2
    assert "this is binary data and no text" in capsys.readouterr().err
    assert cli.run(["explain", str(tmp_path / "hangs")]) == 2
    assert "is a link that leads to no file" in capsys.readouterr().err

"""`ddpdoctor diagnose` from the outside: the screen, the exit codes, stdout that is pure."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor.cli import run

DATA = Path(__file__).parents[1] / "data"


def test_dumps_are_judged_and_the_case_gives_the_same_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diagnose", str(DATA / "recorder" / "gloo"), "--case", str(tmp_path / "a.json")]) == 1
    first = capsys.readouterr().out
    assert "DDP301 collective-mismatch: rank 0 called broadcast #9 where ranks 1-2 called all_reduce #9" in first
    assert "/home/me/job/a.py:26 in <module>" in first
    assert run(["diagnose", str(tmp_path / "a.json"), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(finding["code"], finding["ranks"]) for finding in report["findings"]] == [("DDP301", [0])]


def test_html_is_written_to_a_file_and_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file gets the page, and the terminal the text; without a file the page goes to stdout alone."""
    page = tmp_path / "report.html"
    assert run(["diagnose", str(DATA / "recorder" / "gloo"), "--format", "html", "-o", str(page)]) == 1
    shown = capsys.readouterr()
    assert "DDP301 collective-mismatch" in shown.out
    assert f"report written to {page}" in shown.err
    assert run(["diagnose", str(DATA / "recorder" / "gloo"), "--format", "html"]) == 1
    printed = "".join(capsys.readouterr())
    for written in (page.read_text(), printed):
        assert written.startswith("<!doctype html>")
        assert written.endswith("</html>\n")
        assert "rank 0 called broadcast #9 where ranks 1-2 called all_reduce #9" in written
        assert "ddpdoctor diagnose" in written


def test_a_trace_is_written_beside_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, packed = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    for path in (plain, packed):
        assert run(["diagnose", str(DATA / "recorder" / "gloo"), "--trace", str(path)]) == 1
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    names = {event["name"] for event in json.loads(plain.read_bytes())["traceEvents"]}
    assert {"all_reduce", "broadcast", "thread_name"} <= names


def test_a_trace_needs_recorders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.log").write_text("Traceback (most recent call last):\nValueError: bad\n")
    assert run(["diagnose", str(tmp_path), "--trace", str(tmp_path / "trace.json")]) == 2
    assert "--trace needs flight-recorder dumps, and none of the files holds one" in capsys.readouterr().err
    assert run(["diagnose", str(DATA / "recorder" / "gloo"), "--trace", str(tmp_path)]) == 2
    assert f"--trace {tmp_path} is a directory" in capsys.readouterr().err


def test_a_secret_on_the_command_line_is_not_in_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "token=hunter2.log"
    log.write_text("RuntimeError: CUDA out of memory\n")
    run(["diagnose", str(log), "--format", "html"])
    assert "hunter2" not in capsys.readouterr().out


def test_cases_of_several_nodes_are_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gloo = DATA / "recorder" / "gloo"
    for node, ranks in (("a", (0,)), ("b", (1, 2))):
        files = [str(gloo / f"rank_{rank}") for rank in ranks]
        run(["diagnose", *files, "--case", str(tmp_path / f"case-{node}")])
    capsys.readouterr()
    assert run(["diagnose", str(tmp_path / "case-a"), str(tmp_path / "case-b"), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["ranks"] == [0]


def test_bad_paths_get_a_sentence_and_the_right_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", str(tmp_path / "nowhere")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
    (tmp_path / "rank_0").write_bytes(b"\x80\x02")
    assert run(["diagnose", str(tmp_path)]) == 3
    assert "rank_0: it is cut off after 2 bytes" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert run(["diagnose", str(tmp_path / "empty")]) == 3


def test_a_pipe_is_refused_before_its_first_bytes_are_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ddpdoctor diagnose <(kubectl logs POD)` found nothing in what was left of the log."""
    reading, writing = os.pipe()
    os.write(writing, b"Traceback (most recent call last):\n")
    os.close(writing)
    assert run(["diagnose", f"/dev/fd/{reading}"]) == 2
    os.close(reading)
    assert (
        f"/dev/fd/{reading} is neither a file nor a directory\n  write the output of the pipe"
        in capsys.readouterr().err
    )


def test_a_folder_that_may_not_be_listed_is_named_and_the_rest_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = Path.iterdir

    def refused(path: Path) -> Iterator[Path]:
        if path.name == "private":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    (tmp_path / "private").mkdir()
    (tmp_path / "rank1.log").write_text("ValueError: boom\n")
    monkeypatch.setattr(Path, "iterdir", refused)
    assert run(["diagnose", str(tmp_path)]) == 1
    assert f"not used: {tmp_path}/private" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("announced", "code", "shown"),
    [
        ([0], 3, "the log ends while the job starts: rank 0 of 5 announced itself"),
        ([0, 2, 1, 3, 4], 3, "the log ends while the job starts: ranks 0-4 of 5 announced themselves"),
        ([0, 0, 1, 1], 1, "several processes claim ranks 0-1 of 5, and none claims ranks 2-4"),
    ],
)
def test_a_log_that_ends_while_the_job_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], announced: list[int], code: int, shown: str
) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "".join(f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/5\n" for rank in announced)
    )
    assert run(["diagnose", str(log)]) == code
    printed = "".join(capsys.readouterr())
    assert shown in " ".join(printed.split())
    assert "neither a failure" not in printed


@pytest.mark.parametrize("option", ["--output", "--trace"])
def test_a_log_is_not_replaced_by_its_report(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Regression: the user's only log was gone."""
    log, link = tmp_path / "own.log", tmp_path / "link.log"
    log.write_text("[rank0]: ValueError: x\n")
    link.symlink_to(log)
    monkeypatch.chdir(tmp_path)
    for file in ("own.log", str(log), str(link)):
        assert run(["diagnose", "own.log", option, file]) == 2
        assert f"{option} {file} would replace own.log, which this command reads" in capfd.readouterr().err
    assert log.read_text() == "[rank0]: ValueError: x\n"


def test_a_report_is_replaced_by_the_next_one(tmp_path: Path) -> None:
    log, report = tmp_path / "own.log", tmp_path / "report.txt"
    log.write_text("[rank0]: ValueError: x\n")
    report.write_text("of yesterday")
    run(["diagnose", str(log), "--output", str(report)])
    assert "ValueError" in report.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"\x28\xb5\x2f\xfd step 1", "it is compressed: unpack it (`zstd --decompress "),
        (bytes(range(256)) * 4, "neither a dump, nor a log, nor a case"),
    ],
    ids=["empty", "zstd", "binary"],
)
def test_a_file_that_is_no_text_is_named_with_what_can_be_done(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.log"
    file.write_bytes(content)
    assert run(["diagnose", str(file)]) == 3
    assert f"{file}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "kind", "command"),
    [("d.zip", "zip", "unzip"), ("d.tar", "tar", "tar -xf"), ("d.tar.gz", "gztar", "tar -xf")],
)
def test_an_archive_is_named_with_the_command_that_unpacks_it(
    name: str, kind: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, given = tmp_path / "content", tmp_path / "given"
    content.mkdir()
    given.mkdir()
    (content / "job.log").write_text("[rank0]: ValueError: x\n")
    shutil.make_archive(str(given / "d"), kind, content)
    assert run(["diagnose", str(given)]) == 3
    assert f"{given / name}: it is compressed: unpack it (`{command} {given / name}`)" in capsys.readouterr().err


def test_a_checkpoint_is_no_archive_and_a_folder_of_nothing_names_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "best.pth.tar"
    file.write_bytes(b"PK\x03\x04" + bytes(900))
    assert run(["diagnose", str(tmp_path)]) == 3
    assert f"{file}: neither a dump, nor a log, nor a case" in capsys.readouterr().err


def test_an_empty_folder_and_standard_input_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", str(tmp_path)]) == 3
    assert f"{tmp_path}: there is no file in it" in capsys.readouterr().err
    assert run(["diagnose", "-"]) == 2
    assert "diagnose reads files, not standard input (-)" in capsys.readouterr().err

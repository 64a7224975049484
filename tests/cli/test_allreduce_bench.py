"""`ddpdoctor allreduce-bench` on real ranks: its table, its files, its bad days, and nothing left behind."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ddpdoctor import cli
from ddpdoctor.cli.sizes import parse_sizes
from ddpdoctor.errors import UsageError
from ddpdoctor.render.bench import values_line
from tests.sampled import sampled
from tests.waiting import PROGRAM_SECONDS, within

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "ddpdoctor", "allreduce-bench"]


def bench(
    *arguments: str, env: dict[str, str] | None = None, launcher: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *launcher, "-m", "ddpdoctor", "allreduce-bench", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})}, check=False
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One run over five sizes, one of them zero and one odd, with everything that it can write."""
    folder = tmp_path_factory.mktemp("bench")
    arguments = [
        "--sizes",
        "0,1K,4093,4095,1M",  # 4093 and 4095 bytes are as many whole elements
        "--iters",
        "10",
        "--save",
        str(folder / "run.json"),
        "--plot",
        str(folder / "run.svg"),
    ]
    return folder, bench("--nproc", "2", *arguments)


def test_the_table_has_a_line_a_size_with_the_columns_of_nccl_tests(saved) -> None:
    _, ended = saved
    assert ended.returncode == 0, ended.stderr
    header, _, *rows = ended.stdout.split("\n\n")[1].splitlines()
    assert header.split()[:8] == ["size", "count", "type", "op", "time", "algbw", "busbw", "#wrong"]
    assert [row.split()[:4] for row in rows] == [
        ["0", "0", "float32", "sum"],
        ["1024", "256", "float32", "sum"],
        ["4092", "1023", "float32", "sum"],
        ["1048576", "262144", "float32", "sum"],
    ]
    assert all(row.split()[7] == "0" for row in rows)
    fit = r"^fit: latency \S+ us ±\S+%, bandwidth \S+ GB/s algbw"
    assert re.search(rf"{fit}|^no fit: ", ended.stdout, re.MULTILINE), (
        ended.stdout
    )  # a busy host's times may allow none
    assert "values: 9 counts compared on fresh buffers, 5 of them odd, 0 included: 0 wrong" in ended.stdout


def test_the_saved_run_is_read_again_and_drawn(saved) -> None:
    folder, _ = saved
    ended = bench(
        "--nproc", "2", "--sizes", "1M", "--iters", "5", "--compare", str(folder / "run.json"), "--format", "json"
    )
    report = json.loads(ended.stdout)
    outcome = next(outcome for outcome in report["outcomes"] if outcome["code"] == "DDP607")
    assert outcome["outcome"] == "ran"
    (size,) = report["measured"]["bench"]["sizes"]
    assert (size["bytes"], size["iterations"], size["wrong"]) == (1 << 20, 5, 0)
    assert 0 < size["min"] <= size["p50"] <= size["p95"] <= size["max"]
    assert (folder / "run.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    "collective",
    sampled(
        ["all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv"],
        lambda collective: collective in {"reduce_scatter", "all_to_all", "send_recv"},
    ),
)
def test_every_collective_joins_a_launcher_and_is_exact(collective: str) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3")
    ended = bench("--collective", collective, "--sizes", "1,4097", "--iters", "3", launcher=launcher)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(f"{collective} over gloo, 3 ranks") == 1  # rank 0 speaks, once
    assert "5 counts compared on fresh buffers" in ended.stdout
    assert "0 included: 0 wrong" in ended.stdout


def test_damaged_values_are_found_on_their_rank(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "findings" / "DDP221.md").read_text()
    program = page.split("<<'EOF'\n")[1].split("    EOF\n")[0]
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(program))
    ended = bench("--nproc", "2", "--sizes", "1K", "--iters", "3", env={"PYTHONPATH": str(tmp_path)})
    assert ended.returncode == 1
    assert "wrong values on rank 1 at 3 of 5 counts, first 42 instead of 41 in element 5 of 7" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--nproc", "0"], "--nproc 0 is not a number of ranks between 1 and 256"),
        (["--nproc", "10000"], "--nproc 10000 is not a number of ranks between 1 and 256"),
        (["--nproc", "2", "--collective", "gossip"], "'gossip' is not one of 'all_reduce'"),
        (["--nproc", "2", "--sizes", "1K.."], "--sizes 1K..: '' is not a size"),
        (["--nproc", "2", "--sizes", "64M..1K"], "--sizes 64M..1K runs from 64M down to 1K"),
        (["--nproc", "2", "--sizes", "-4"], "'-4' is not a size"),
        (["--nproc", "2", "--sizes", "9999T"], "9999T is larger than 1T"),
        (["--nproc", "2", "--op", "max", "--collective", "broadcast"], "broadcast does not reduce"),
        (["--nproc", "2", "--op", "avg", "--dtype", "int8"], "--op avg is not defined for int8"),
        (["--nproc", "1", "--collective", "send_recv"], "send_recv needs two ranks; there is 1"),
        (["--nproc", "2", "--plot", "curve.pdf"], "--plot curve.pdf is neither a .png nor a .svg file"),
        (["--nproc", "2", "--compare", "/nonexistent.json"], "/nonexistent.json cannot be read: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_refused_before_any_rank_starts(
    arguments: list[str], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["allreduce-bench", *arguments]) == 2
    assert says in " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize(
    "content",
    ["", "{", '{"schema": "ddpdoctor.case/1"}', '{"schema": "ddpdoctor.bench/1"}', "[" * 100_000, "\0\0\0", '"text"'],
    ids=["empty", "truncated", "a case", "no bench", "deep", "binary", "a string"],
)
def test_a_foreign_file_to_compare_with_is_refused(
    content: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.json").write_text(content)
    assert cli.run(["allreduce-bench", "--nproc", "2", "--compare", str(tmp_path / "other.json")]) == 2
    assert "other.json is not a saved benchmark" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "rule", "option"),
    [
        ("allreduce-bench", "ddp221_collective_result_wrong", "--save"),
        ("net", "ddp212_link_broken", "--nodes-out"),
    ],
)
def test_a_file_that_cannot_be_written_costs_no_verdict(
    command: str, rule: str, option: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    evidence = importlib.import_module(f"tests.checks.{rule}").SICK[0].evidence
    monkeypatch.setattr("ddpdoctor.cli.allreduce_bench.check_places", lambda *_: None)  # a disk that fills later
    monkeypatch.setattr("ddpdoctor.workflows.benchmark.run_bench", lambda plan, **_: (evidence, True))
    monkeypatch.setattr("ddpdoctor.launch.net_process.run_node", lambda place, **_: evidence)
    arguments = ["--nproc", "2"] if command == "allreduce-bench" else []
    assert cli.run([command, *arguments, option, "/proc/nowhere/file"]) == 4
    said = capfd.readouterr()
    assert rule[:6].upper() in said.out
    assert "cannot write /proc/nowhere/file" in said.err


def test_a_count_of_zero_is_said_to_be_compared_where_it_was() -> None:
    exact = importlib.import_module("tests.checks.ddp221_collective_result_wrong").EXACT
    assert values_line(exact) == "values: 5 counts compared on fresh buffers, 3 of them odd, 0 included: 0 wrong"
    cut_short = replace(exact, checked=())
    assert values_line(cut_short) == "values: 0 counts compared on fresh buffers, 0 of them odd: 0 wrong"


def test_sizes_are_read_as_people_write_them() -> None:
    assert parse_sizes("1K..64K") == (1 << 10, 1 << 12, 1 << 14, 1 << 16)
    assert parse_sizes("1K..5KiB, 0 ,3") == (0, 3, 1024, 4096, 5120)
    with pytest.raises(UsageError, match="cannot begin at 0"):
        parse_sizes("0..1K")


def ranks_below(pid: int) -> list[psutil.Process]:
    """The workers: what torchrun starts as `python -u collective.py PLAN`."""
    try:
        below = psutil.Process(pid).children(recursive=True)
        return [process for process in below if process.cmdline()[1:2] == ["-u"]]
    except psutil.Error:
        return []


@pytest.mark.parametrize("event", ["rank killed", "SIGINT"])
def test_a_bad_day_in_the_middle_leaves_nothing_behind(event: str, tmp_path: Path) -> None:
    long = ["--nproc", "2", "--sizes", "4M", "--iters", "100000", "--time-budget", "300"]
    us = subprocess.Popen([*COMMAND, *long], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert within(lambda: len(ranks_below(us.pid)) == 2, seconds=120), "the ranks did not come up"
        results = Path(ranks_below(us.pid)[0].environ()["DDPDOCTOR_RESULTS"])
        assert within(lambda: results.exists() and "trying" in results.read_text(), seconds=120), "they do not work"
        tree = psutil.Process(us.pid).children(recursive=True)
        if event == "rank killed":
            ranks_below(us.pid)[0].send_signal(signal.SIGKILL)
        else:
            us.send_signal(signal.SIGINT)
        stdout, stderr = us.communicate(timeout=PROGRAM_SECONDS)
    finally:
        us.kill()
    assert within(lambda: not any(process.is_running() for process in tree))
    if event == "rank killed":
        assert us.returncode == 3, stderr
        assert re.search(
            r"undecided: rank \d was killed by SIGKILL during the benchmark, at a size of 4194304 bytes", stdout
        )
    else:
        assert us.returncode == 130
        assert "interrupted" in stderr

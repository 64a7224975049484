"""`ddpdoctor train` from outside: verdicts, bad input and bad days."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import psutil
import pytest

from ddpdoctor.case import load
from ddpdoctor.cli.train import in_words
from ddpdoctor.evidence.training import TrainingRun
from tests.free_port import free_port
from tests.waiting import PROGRAM_SECONDS, within

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())


def ddpdoctor(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddpdoctor", *arguments],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        env={**os.environ, **env},
        check=False,
    )


def test_the_options_of_the_job_are_listed_without_ranks() -> None:
    """Regression: two ranks wrote the help, and the verdict was a job that failed with exit code 0."""
    ended = ddpdoctor("train", "--", "--help")
    assert ended.returncode == 0, ended.stderr
    assert "--checkpoint-every" in ended.stdout
    assert not ended.stderr


def test_a_job_that_cannot_learn_is_a_finding(tmp_path: Path) -> None:
    """`ddpdoctor smoke` has the job that can, in tests/cli/test_smoke.py."""
    case = tmp_path / "case.json"
    ended = ddpdoctor(
        "train", "--nproc", "2", "--batch-size", "4000", "--epochs", "1", "--format", "json", "--case", str(case)
    )

    assert ended.returncode == 1, ended.stderr
    document = json.loads(ended.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    (finding,) = document["findings"]
    assert (finding["code"], finding["name"]) == ("DDP522", "reference-accuracy-below-band")
    assert finding["message"].startswith("digitnet on digits reaches 10.0% on 1000 test samples with 2 ranks; ")
    assert document["measured"]["training"]["samples_per_second"] > 0
    run = load(case).one(TrainingRun)
    assert run is not None
    assert dict(in_words(run))["accuracy"].startswith("10.0% of 1000 test samples, loss ")


def test_a_directory_without_data_is_bad_usage(tmp_path: Path) -> None:
    ended = ddpdoctor("train", "--nproc", "2", "--data-dir", str(tmp_path))

    assert ended.returncode == 2
    assert ended.stderr.startswith(f"ddpdoctor: {tmp_path} holds neither train-images-idx3-ubyte nor")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("nproc", ["0", "-1", "100000"])
def test_a_senseless_number_of_ranks_is_bad_usage(nproc: str) -> None:
    ended = ddpdoctor("train", "--nproc", nproc)

    assert ended.returncode == 2
    assert f"--nproc {nproc} is not a number of ranks between 1 and 256" in ended.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--inject", "DDP305", "--culprit", "9", "-n", "2"], "there is no rank 9 for the fault"),
        (["--inject", "DDP305", "-n", "1"], "there is no rank 1 for the fault"),
        (["--culprit", "1"], "--culprit 1 needs --inject"),
    ],
    ids=" ".join,
)
def test_a_culprit_that_is_no_rank_is_bad_usage(words: list[str], said: str) -> None:
    ended = ddpdoctor("train", *words)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_injected_fault_ends_like_the_job_itself() -> None:
    ended = ddpdoctor("train", "--inject", "DDP401", "--nproc", "2", "--culprit", "0")

    assert ended.returncode == 1
    assert "ValueError: label" in ended.stderr
    assert "rank-raised" not in ended.stdout


def family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def test_ctrl_c_leaves_nothing_behind() -> None:
    """`tests/cli/test_bad_days.py` and `tests/launch/test_deaths.py` kill commands and jobs."""
    us = subprocess.Popen(
        [sys.executable, "-m", "ddpdoctor", "train", "--nproc", "2", "--epochs", "500"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert within(lambda: len(family(us.pid)) >= 4)  # the subreaper, the launcher and two ranks
        started = family(us.pid)

        us.send_signal(signal.SIGINT)

        _, said = us.communicate(timeout=PROGRAM_SECONDS)
        _, alive = psutil.wait_procs(started, timeout=PROGRAM_SECONDS)
        assert not alive
        assert us.returncode == 130
        assert said == "ddpdoctor: interrupted\n"
    finally:
        us.kill()


@pytest.mark.slow
def test_a_rank_that_waits_under_a_launcher_says_for_whom_and_the_verdict_names_it() -> None:
    launch = {
        "RANK": "0",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    ended = ddpdoctor("train", "--deadline", "40", **launch)

    assert ended.returncode == 3, ended.stderr
    where = f"127.0.0.1:{launch['MASTER_PORT']}"
    assert f"waits for ranks 1-2 at {where} for at most 40 s" in ended.stderr
    assert f"undecided: ranks 1-2 of 3 did not come to {where}" in ended.stdout

"""`make gpu` on a machine without a GPU: what is chosen, run once, resumed, skipped, ended in time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.workflows.diagnose import gather
from tests.gpu.__main__ import main
from tests.gpu.hangs import wrong
from tests.gpu.machine import ROOT, Machine, NoGpu, find, needed
from tests.gpu.parts import DDPDOCTOR, Part, Step, parts
from tests.gpu.runner import read_state, sharing_of

KEPT = Path(__file__).parent / "kept"  # what `make gpu PARTS="--keep tests/gpu/kept"` left of a run on a card
HERE = Machine(python=sys.executable, gpus=("NVIDIA H200",), torch="2.13.0", nccl="2.29.3")
NOTE = "import pathlib, sys; pathlib.Path(sys.argv[1], 'ran').open('a').write('x'); print('measured 4 GB/s')"
FAILS_ONCE = f"{NOTE}; sys.exit(0 if pathlib.Path(sys.argv[1], 'ran').read_text() == 'xx' else 3)"


def part(name: str, code: str = NOTE, *, seconds: float = 60.0, needs: str | None = None) -> Part:
    """A part that runs this code with its folder."""
    step = Step(command=("{python}", "-c", code, "{folder}"), seconds=seconds)
    return Part(name=name, told="a test", steps=[step], needs=needs)


def run(evidence: Path, known: Sequence[Part], *arguments: str, machine: Machine | NoGpu = HERE) -> int:
    """`python -m tests.gpu` with these parts, on this machine."""
    return main([*arguments, "--evidence", str(evidence)], known=known, machine=machine)


def times(evidence: Path, name: str) -> int:
    """How often a part ran."""
    ran = evidence / name / "ran"
    return len(ran.read_text()) if ran.exists() else 0


def test_without_a_gpu_every_part_says_that_it_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "evidence", parts(), machine=NoGpu("no NVIDIA GPU")) == 0
    said = capsys.readouterr().out
    assert all(f"{one.name}: skipped: no NVIDIA GPU" in said for one in parts())
    assert not (tmp_path / "evidence").exists()


def test_a_part_that_is_done_is_not_run_again_but_one_that_failed_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [part("facts"), part("smoke", FAILS_ONCE)]
    assert run(tmp_path, known) == 1
    assert "ended with exit code 3: measured 4 GB/s" in capsys.readouterr().out
    assert run(tmp_path, known) == 0
    assert (times(tmp_path, "facts"), times(tmp_path, "smoke")) == (1, 2)
    assert {name: one.how for name, one in read_state(tmp_path).items()} == {"facts": "done", "smoke": "done"}


def test_again_runs_what_was_done(tmp_path: Path) -> None:
    for arguments in ((), ("--again",)):
        assert run(tmp_path, [part("facts")], *arguments) == 0
    assert times(tmp_path, "facts") == 2


def test_only_the_parts_that_are_named_are_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = [part("facts"), part("smoke")]
    assert run(tmp_path, known, "smoke") == 0
    assert (times(tmp_path, "facts"), times(tmp_path, "smoke")) == (0, 1)
    assert run(tmp_path, known, "smok") == 2
    assert "no part is called smok; there are facts, smoke" in capsys.readouterr().err


def test_a_part_that_would_end_too_late_is_left_for_the_next_run(tmp_path: Path) -> None:
    known = [part("facts"), part("train", seconds=600)]
    assert run(tmp_path, known, "--minutes", "5") == 0
    assert read_state(tmp_path)["train"].how == "skipped"
    assert run(tmp_path, known, "--minutes", "11") == 0
    assert (times(tmp_path, "facts"), times(tmp_path, "train")) == (1, 1)


def test_a_part_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    starts = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '600']); print(child.pid, flush=True); child.wait()"
    )
    assert run(tmp_path, [part("hangs", starts, seconds=2)]) == 1
    assert "was ended after 2 s" in read_state(tmp_path)["hangs"].why
    child = (tmp_path / "hangs" / "step-0.log").read_text().strip()
    assert child.isdecimal()
    assert not Path("/proc", child).exists()


def test_a_part_is_skipped_where_its_data_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CIFAR10_DIR", raising=False)
    assert run(tmp_path, [part("cifar10", needs="CIFAR10_DIR")]) == 0
    assert read_state(tmp_path)["cifar10"].why == "CIFAR10_DIR is not set"


def test_what_tests_can_use_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, files in {
        "facts": ("facts.json",),
        "ddp307-2": ("verdicts.json", "dumps/rank_0"),
        "ddp310-2": ("verdicts.json",),
    }.items():
        for file in files:
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text("{}")
    assert run(tmp_path, [], "--keep", str(tmp_path / "kept")) == 0
    assert "kept for the tests: facts, ddp307-2\n" in capsys.readouterr().out
    assert (tmp_path / "kept" / "ddp307-2" / "dumps" / "rank_0").exists()


@pytest.mark.parametrize("dumps", sorted(KEPT.glob("*/dumps")), ids=lambda path: path.parent.name)
def test_dumps_of_a_gpu_are_judged_right(dumps: Path) -> None:
    report = diagnose(gather([dumps]))
    document = {
        "findings": [{"code": one.code, "ranks": [*one.ranks], "message": one.message} for one in report.findings]
    }
    code, _, ranks = dumps.parent.name.partition("-")
    assert not wrong(code.upper(), document, ranks=int(ranks), by_dumps=True)


def test_a_damaged_state_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"facts": [')
    assert run(tmp_path, [part("facts")]) == 0
    assert times(tmp_path, "facts") == 1


def test_later_parts_get_the_variables_with_which_ranks_share_the_card(tmp_path: Path) -> None:
    (tmp_path / "sharing").mkdir()
    told = {"ranks": 4, "environment": {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}, "mps": False}
    (tmp_path / "sharing" / "sharing.json").write_text(json.dumps(told))
    shows = "import os, sys; print(os.environ['NCCL_MULTI_RANK_GPU_ENABLE'], sys.argv[2:])"
    step = Step(command=("{python}", "-c", shows, "{folder}", "{ranks}", "{two}"), seconds=60)
    assert run(tmp_path, [Part(name="train", told="a test", steps=[step])]) == 0
    assert read_state(tmp_path)["train"].why == "1 ['4', '2']"
    assert sharing_of(tmp_path / "elsewhere").ranks == 1


def test_a_python_whose_torch_has_no_cuda_is_named_with_the_reason() -> None:
    found = find(sys.executable)
    if isinstance(found, Machine):
        pytest.skip("this machine has a GPU")
    assert sys.executable in found.reason
    assert "built without CUDA" in found.reason or "sees no GPU" in found.reason


@pytest.mark.parametrize(
    "one", [one for one in parts() if DDPDOCTOR[-1] in one.steps[0].command], ids=lambda one: one.name
)
def test_the_commands_of_ddpdoctor_have_the_options_that_they_are_given(one: Part) -> None:
    """What follows `train` goes to the job, whose options its own help lists."""
    command, *given = one.steps[0].command[len(DDPDOCTOR) :]
    told = options_of(command)
    assert [option for option in given if option.startswith("--") and option not in told] == []


@cache
def options_of(command: str) -> str:
    programs = [["-m", "ddpdoctor", command, "--help"]]
    if command == "train":
        programs += [[str(ROOT / "reference_train" / "recipe.py"), "--help"]]
    return "".join(
        subprocess.run([sys.executable, *each], capture_output=True, text=True, timeout=100, check=True).stdout
        for each in programs
    )


def test_what_ddpdoctor_needs_is_read_where_it_is_written() -> None:
    found = needed()
    assert found["msgspec"].startswith("msgspec>=")
    assert found["py-spy"] == "py-spy>=0.4"
    assert "torch" not in found


def test_the_parts_have_names_of_their_own_and_fit_into_two_runs() -> None:
    names = [one.name for one in parts()]
    assert len(names) == len({*names})
    assert all(one.seconds <= 600 for one in parts())


def test_a_headline_about_another_rank_is_wrong() -> None:
    finding = {"code": "DDP307", "ranks": [0], "message": "rank 0 sleeps"}
    assert wrong("DDP307", {"findings": [finding]}, ranks=2) == "it blames [0]: rank 0 sleeps"
    assert not wrong("DDP307", {"findings": [{**finding, "ranks": [1]}]}, ranks=2)
    assert wrong("DDP307", {}, ranks=2) == "it found nothing"

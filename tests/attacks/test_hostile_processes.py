"""Processes of strangers that pretend to be ranks are shown or passed over, whatever they say of themselves.

Beside each runs an honest rank, which is found in spite of it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ddpdoctor.cli import output
from ddpdoctor.host import processes, running_jobs
from tests.attacks.inputs import ESCAPE, FORGED

LAUNCHED: Mapping[str, str] = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
}  # fmt: skip
HOSTILE = f"x{ESCAPE}\n{FORGED}"
WAITS = "print('ready', flush=True); input()"
RENAMED = "import ctypes; ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0); " + WAITS  # PR_SET_NAME
PLANTED = "import pathlib; pathlib.Path(__file__).with_name('executed').touch()\n"


@dataclass(frozen=True, kw_only=True)
class Rank:
    """A process that says that it is rank 0 of two."""

    name: str = "python3"
    program: str = WAITS
    words: tuple[str, ...] = ("train.py",)
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."
    afterwards: Callable[[Path], None] = lambda _: None

    def start(self, folder: Path) -> subprocess.Popen[str]:
        """Start it in `folder`; it waits for the end of its input."""
        here = folder / self.folder
        here.mkdir(exist_ok=True)
        try:
            process = subprocess.Popen(
                [self.name, "-I", "-S", "-c", self.program, *self.words],
                executable=sys.executable,
                env={**LAUNCHED, "HERE": str(folder), **self.environ},
                cwd=here,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise
            pytest.skip("arguments and variables may take a quarter of `ulimit -s`, which is too small here")
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            self.afterwards(here)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return process


RANKS = {
    "100,000 words": Rank(words=("w",) * 100_000),
    "an argument of 100 KB": Rank(words=("w" * 100_000,)),
    "an environment of 1.5 MB": Rank(environ={f"V{number}": "x" * 100_000 for number in range(15)}),
    "50,000 variables": Rank(environ={f"V{number}": "x" for number in range(50_000)}),
    "escapes in its name": Rank(name=f"python{HOSTILE}"),
    "escapes in its script": Rank(words=(f"train{HOSTILE}.py",)),
    "escapes in its program": Rank(program=f"'''{HOSTILE}'''; {WAITS}"),
    "escapes in each variable": Rank(
        environ=dict.fromkeys(
            ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_NAME", "NCCL_RAS_ADDR"), HOSTILE
        )
    ),
    "escapes in its rank": Rank(environ={"RANK": HOSTILE, "WORLD_SIZE": HOSTILE}),
    "bytes that are no text": Rank(
        words=("\udcff\udc80",), environ={"MASTER_ADDR": "\udcff", "SLURM_JOB_ID": "\udc80"}
    ),
    "5,000 digits for a rank": Rank(environ={"RANK": "9" * 5000, "WORLD_SIZE": "9" * 5000}),
    "a billion ranks": Rank(environ={"RANK": "999999999", "WORLD_SIZE": "1000000000"}),
    "a rank below zero": Rank(environ={"RANK": "-1", "WORLD_SIZE": "-1"}),
    "a rank above all": Rank(environ={"RANK": "7", "WORLD_SIZE": "2"}),
    "empty variables": Rank(environ=dict.fromkeys(LAUNCHED, "")),
    "a name that looks like a state": Rank(program=RENAMED.format(name=b"x) Z 1 1 (y")),
    "a name with escapes": Rank(program=RENAMED.format(name=b"\x1b[2Jpy\nthon)")),
    "no name": Rank(program=RENAMED.format(name=b"")),
    "a working directory that is gone": Rank(folder="gone", afterwards=Path.rmdir),
    "a working directory with escapes": Rank(folder=HOSTILE),
    "an agent's directory of its own choice": Rank(environ={"DDPDOCTOR_DIRECTORY": "/proc/self/cwd"}),
    "programs and modules of its own in the paths": Rank(
        environ=dict.fromkeys(
            ("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "TMPDIR", "XDG_RUNTIME_DIR"), "{here}"
        )
    ),
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Rank], int]]:
    with ExitStack() as stack:

        def started(rank: Rank) -> int:
            environ = {name: value.replace("{here}", str(tmp_path)) for name, value in rank.environ.items()}
            process = stack.enter_context(
                Rank(
                    name=rank.name,
                    program=rank.program,
                    words=rank.words,
                    environ=environ,
                    folder=rank.folder,
                    afterwards=rank.afterwards,
                ).start(tmp_path)
            )
            stack.callback(process.kill)
            return process.pid

        yield started


@pytest.mark.parametrize("name", RANKS)
def test_an_honest_rank_is_found_beside_it(
    name: str,
    start: Callable[[Rank], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for planted in ("sitecustomize.py", "ps.py", "torch.py"):
        (tmp_path / planted).write_text(PLANTED, encoding="utf-8")
    hostile = start(RANKS[name])
    honest = start(Rank(environ={"MASTER_PORT": "29501", "TORCHELASTIC_RUN_ID": "honest"}))
    monkeypatch.setattr(processes, "all_pids", lambda: [hostile, honest, os.getpid()])
    jobs = running_jobs.find_jobs().jobs
    for job in jobs:
        output.say(f"{job.name}: {job.summary}")
    for pid in (hostile, honest):
        output.say(f"{processes.command(pid)[:100]}: {processes.sample(pid)}")
        assert processes.is_alive(pid)
    shown = capsys.readouterr().out
    assert [job.targets[0].rank for job in jobs if honest in job.pids] == [0]
    assert not [character for character in shown if not (character in "\n\t" or character.isprintable())]
    assert not [line for line in shown.splitlines() if line.startswith(FORGED)]
    assert not (tmp_path / "executed").exists()

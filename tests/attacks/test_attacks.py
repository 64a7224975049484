"""Every attack of the catalogue fails: against the laws of the fuzzer, and against what the attack wants."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.attacks.catalogue import ATTACKS
from tests.attacks.inputs import FORGED
from tests.fuzz import server as server_program
from tests.fuzz.__main__ import MARK, Ended, Server, broken_law, size_of

PAGE = Path(__file__).parents[2] / "docs" / "attacks.md"


# Quoting that keeps line breaks, and does not mark the lines that follow.
LINES_UNQUOTED = """
import ddpdoctor.quoting as quoting
escaped = quoting._visible
quoting._visible = lambda character: character if character == chr(10) else escaped(character)
quoting.CONTINUES = ""
"""
FORGING = [name for name, attack in ATTACKS.items() if attack.forges]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One process that answers all command lines: its imports take a second, an attack takes milliseconds."""
    one = Server()
    yield one
    one.close()


@pytest.fixture(scope="module")
def broken_server() -> Iterator[Server]:
    """The same without the defence against forged lines."""
    one = Server(LINES_UNQUOTED)
    yield one
    one.close()


def alone(arguments: Sequence[str], folder: Path, **environ: str) -> Ended:
    """How a command line ends in a process of its own."""
    command = [str(Path(sys.executable).with_name("ddpdoctor")), *arguments]
    run = subprocess.run(
        command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )
    return Ended(run.returncode, 0.0, 0, run.stdout + run.stderr)


def forged(shown: str) -> list[str]:
    """Lines that a hostile text began."""
    return [line for line in shown.splitlines() if line.lstrip().startswith(FORGED)]


@pytest.mark.parametrize("name", ATTACKS)
def test_the_attack_fails(name: str, server: Server, tmp_path: Path) -> None:
    attack, folder = ATTACKS[name], tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    attack.make(folder)
    size = size_of(folder)
    before = {file: (folder / file).read_bytes() for file in attack.untouched}
    end = alone(attack.arguments, folder) if attack.alone else server.ended(list(attack.arguments), folder)
    assert broken_law(end, folder, size) == "", end.shown[-2000:]
    assert end.code in attack.codes, end.shown[-2000:]
    assert attack.shows in end.shown
    assert not forged(end.shown)
    assert {file: (folder / file).read_bytes() for file in attack.untouched} == before
    written = "".join((folder / file).read_text(errors="replace") for file in attack.leaves)
    assert not [secret for secret in attack.never if secret in end.shown + written]
    assert not [file for file in attack.leaves if stat.S_IMODE((folder / file).stat().st_mode) & 0o077]


@pytest.mark.parametrize("name", FORGING)
def test_without_the_defence_the_line_is_forged(name: str, broken_server: Server, tmp_path: Path) -> None:
    """What the attack writes reaches the screen, and `forged` sees it there."""
    ATTACKS[name].make(tmp_path)
    assert forged(broken_server.ended(list(ATTACKS[name].arguments), tmp_path).shown)


def test_without_the_defence_planted_modules_are_executed(tmp_path: Path) -> None:
    attack = ATTACKS["modules in the working directory"]
    attack.make(tmp_path)
    end = alone(attack.arguments, tmp_path, PYTHONPATH=str(tmp_path))
    assert broken_law(end, tmp_path, 0)
    assert (tmp_path / MARK).exists()


def test_the_page_lists_every_attack() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert not [name for name in ATTACKS if f"| {name} |" not in page]


def test_memory_is_measured_where_the_kernel_does_not_forget_its_highest_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a sandbox without /proc/self/clear_refs, in which each worker ended before its first command."""

    def absent(path: Path, *_: object, **__: object) -> int:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "write_text", absent)
    before = server_program._memory_from_now_on()
    assert 0 <= before <= server_program._memory("VmHWM")
    assert server_program._memory("NoSuchNumber") == 0

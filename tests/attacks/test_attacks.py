"""Every attack of the catalogue fails: against the laws of the fuzzer, and against what the attack wants."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.catalogue import ATTACKS, FORGED
from tests.fuzz import server as server_program
from tests.fuzz.__main__ import Server, broken_law, size_of

PAGE = Path(__file__).parents[2] / "docs" / "attacks.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One process that answers all command lines: its imports take a second, an attack takes milliseconds."""
    one = Server()
    yield one
    one.close()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_attack_fails(name: str, server: Server, tmp_path: Path) -> None:
    attack, folder = ATTACKS[name], tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    attack.make(folder)
    size = size_of(folder)
    ended = server.ended(list(attack.arguments), folder)
    assert broken_law(ended, folder, size) == "", ended.shown[-2000:]
    assert ended.code in attack.codes, ended.shown[-2000:]
    assert attack.shows in ended.shown
    assert not [line for line in ended.shown.splitlines() if line.lstrip().startswith(FORGED)]
    written = "".join((folder / file).read_text(errors="replace") for file in attack.leaves)
    assert not [secret for secret in attack.never if secret in ended.shown + written]
    assert not [file for file in attack.leaves if stat.S_IMODE((folder / file).stat().st_mode) & 0o077]


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

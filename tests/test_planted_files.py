"""What another user put in the place of a file that we write is neither followed, nor written into, nor imitated."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ddpdoctor import planted_files
from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.planted_files import led_to

ANOTHER = 65534


def why_impossible() -> str:
    """Why no file of another user can be made here: as root of a user namespace, perhaps no other user is mapped."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, ANOTHER, ANOTHER)
        except OSError as error:
            return f"no file can be given to user {ANOTHER}: {error.strerror}"
    return "" if os.geteuid() == 0 else "only root can make files of another user"


pytestmark = pytest.mark.skipif((why := why_impossible()) != "", reason=why)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that all may write to, as /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def planted_link(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    os.lchown(link, ANOTHER, ANOTHER)
    return link


@pytest.mark.parametrize("leads", ["file", "folder/file", "missing"])
def test_a_link_that_another_user_planted_is_not_followed(tmp_path: Path, shared: Path, leads: str) -> None:
    (tmp_path / "folder").mkdir()
    for file in (tmp_path / "file", tmp_path / "folder" / "file"):
        file.write_text("kept")
    name, _, rest = leads.partition("/")
    link = planted_link(shared / "link", tmp_path / name)
    with pytest.raises(DdpdoctorError, match=f"link of user {ANOTHER}, which is not followed"):
        write_atomically(link / rest, "ours", private=True)
    assert {file.read_text() for file in (tmp_path / "file", tmp_path / "folder" / "file")} == {"kept"}
    assert not (tmp_path / "missing").exists()


def test_a_link_of_ours_is_followed_there(tmp_path: Path, shared: Path) -> None:
    (shared / "link").symlink_to(tmp_path / "file")
    write_atomically(shared / "link", "ours")
    assert (tmp_path / "file").read_text() == "ours"


def test_whose_links_are_followed(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root follows those of root and of who called sudo; others those of anybody, but in a shared directory few."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    here, there = planted_link(tmp_path / "link", tmp_path), planted_link(shared / "link", tmp_path)
    with pytest.raises(OSError, match="not followed"):
        led_to(here)
    monkeypatch.setenv("SUDO_UID", str(ANOTHER))
    assert led_to(here) == tmp_path
    monkeypatch.setattr(os, "geteuid", lambda: ANOTHER - 1)
    assert led_to(here) == tmp_path
    with pytest.raises(OSError, match="not followed"):
        led_to(there)
    os.chown(shared, ANOTHER, ANOTHER)
    assert led_to(there) == tmp_path
    monkeypatch.setattr(os, "geteuid", lambda: ANOTHER)
    os.chown(shared, 0, 0)
    assert led_to(there) == tmp_path


def test_the_root_of_a_user_namespace_is_one_of_the_others(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the root outside has the uid of `nobody`: its links, such as `/dev/stdout`, are followed like those of root."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(planted_files, "_in_user_namespace", lambda: True)
    assert led_to(planted_link(tmp_path / "link", tmp_path)) == tmp_path
    assert led_to(planted_link(shared / "outside", tmp_path)) == tmp_path, "a link of uid nobody"
    os.lchown(shared / "outside", ANOTHER - 1, ANOTHER - 1)
    with pytest.raises(OSError, match="not followed"):
        led_to(shared / "outside")


def test_a_report_of_whoever_called_sudo_keeps_its_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.txt"
    file.write_text("earlier")
    file.chmod(0o644)
    os.chown(file, ANOTHER, ANOTHER)
    monkeypatch.setenv("SUDO_UID", str(ANOTHER))
    write_atomically(file, "ours", private=True)
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.timeout(20)
def test_a_pipe_of_another_user_is_not_waited_for(shared: Path) -> None:
    os.mkfifo(shared / "case.json", 0o666)
    os.chown(shared / "case.json", ANOTHER, ANOTHER)
    with pytest.raises(DdpdoctorError, match=f"named pipe of user {ANOTHER}"):
        write_atomically(shared / "case.json", "ours")


def test_permissions_that_another_user_chose_are_not_those_of_our_file(shared: Path) -> None:
    file = shared / "case.json"
    file.write_text("theirs")
    file.chmod(0o666)
    os.chown(file, ANOTHER, ANOTHER)
    write_atomically(file, "ours", private=True)
    found = file.stat()
    assert (found.st_uid, found.st_mode & 0o777) == (0, 0o600)


def test_a_corrected_file_stays_its_owners(tmp_path: Path) -> None:
    """`lint --fix` by root must not take a file away from its user."""
    file = tmp_path / "train.py"
    file.write_text("theirs")
    os.chown(file, ANOTHER, ANOTHER)
    file.chmod(0o4750)
    write_atomically(file, "corrected", keeps=True)
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (ANOTHER, ANOTHER, 0o750)


@pytest.mark.parametrize("folder", ["/proc/self/fd", "/dev/fd"])
def test_a_descriptor_that_we_were_given_is_written_to(folder: str) -> None:
    """As with `--output >(COMMAND)` of a shell, and `--output /dev/stdout`; the pipe may be of the user who called sudo."""
    reader, writer = os.pipe()
    os.fchown(writer, ANOTHER, ANOTHER)
    write_atomically(Path(folder, str(writer)), "ours")
    os.close(writer)
    assert os.read(reader, 100) == b"ours"
    os.close(reader)

"""Root reads what a job's process points to without believing, waiting for or following a third user."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.host.owned_files import check_listener, read_owned, read_source, user_of
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent
from ddpdoctor.ranks.agent_files import find_ranks
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.source.stack_lines.env_overwrites import overwrites_of

US = os.geteuid()
ANOTHER = US + 1


def test_a_regular_file_of_the_user_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert read_owned(tmp_path / "file", US) == b"content"
    assert read_owned(tmp_path / "file", None, most=4) == b"cont"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "socket", "missing", "another user's"])
def test_what_is_no_file_of_the_user_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path, owner = tmp_path / "file", US
    listener = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "target").write_bytes(b"content")
        path.symlink_to(tmp_path / "target")
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        listener.bind(str(path))
    elif kind == "another user's":
        path.write_bytes(b"content")
        owner = ANOTHER
    with listener, pytest.raises(OSError):
        read_owned(path, owner)
    if kind in {"pipe", "folder"}:
        assert find_ranks(tmp_path, owner) == ()


@pytest.mark.timeout(20)
def test_source_is_read_where_the_user_could_read_it_too(tmp_path: Path) -> None:
    script, pipe = tmp_path / "train.py", tmp_path / "pipe.py"
    script.write_text("import os\nos.environ['MASTER_PORT'] = '1'\n")
    os.mkfifo(pipe)
    script.chmod(0o600)
    here = [Frame(file=str(path), line=2, function="<module>") for path in (script, pipe)]
    assert source_of(here, ANOTHER) is None
    assert overwrites_of(here, ANOTHER) is None
    assert source_of(here, US) is not None
    script.chmod(0o644)
    assert source_of(here, ANOTHER) is not None
    assert overwrites_of(here, ANOTHER) is not None
    assert read_source(pipe, None) is None


def test_a_socket_of_another_user_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "ask"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            check_listener(connection, US, path)
            with pytest.raises(PermissionError):
                check_listener(connection, ANOTHER, path)
        with pytest.raises(NoAnswer, match="belongs to user"):
            ask_agent(path, deadline_seconds=2, owner=ANOTHER)


def test_the_user_of_a_process() -> None:
    assert user_of(os.getpid()) == US
    assert user_of(2**22 + 1) is None

"""A download is kept only if it is what was published."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import download
import pytest
from train import BadInput


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "images.gz").write_bytes(b"images")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_file_with_the_published_checksum_is_kept(
    tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.md5(b"images", usedforsecurity=False).hexdigest()
    monkeypatch.setitem(download.FILES, "mnist", (("images.gz", f"{mirror}images.gz", digest),))

    download.download("mnist", tmp_path / "data")

    assert [path.name for path in (tmp_path / "data").iterdir()] == ["images.gz"]
    monkeypatch.setitem(download.FILES, "mnist", (("images.gz", "http://127.0.0.1:9/never-asked", digest),))
    download.download("mnist", tmp_path / "data")


def test_anything_else_is_refused_and_not_kept(tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(download.FILES, "mnist", (("images.gz", f"{mirror}images.gz", "0" * 32),))
    with pytest.raises(BadInput, match=r"images\.gz sent something with md5 [0-9a-f]{32}; published is 0000"):
        download.download("mnist", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_no_network_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(download.FILES, "mnist", (("images.gz", "http://127.0.0.1:9/images.gz", "0" * 32),))
    with pytest.raises(BadInput, match=r"cannot download images\.gz from http://127\.0\.0\.1:9/images\.gz: .*refused"):
        download.download("mnist", tmp_path / "data")


def test_an_archive_that_cannot_be_unpacked_is_refused_on_all_ranks_and_raises_on_none(
    tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full by then, or no archive at all: what is no BadInput leaves the other ranks waiting."""
    (tmp_path / "mirror" / "images.tar.gz").write_bytes(b"images")
    digest = hashlib.md5(b"images", usedforsecurity=False).hexdigest()
    monkeypatch.setitem(download.FILES, "cifar10", (("images.tar.gz", f"{mirror}images.tar.gz", digest),))
    with pytest.raises(BadInput, match=r"cannot unpack .*images\.tar\.gz: "):
        download.download("cifar10", tmp_path / "data")

"""A store that serves asks no name service who connects, where the name service knows no name and counts the questions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "/etc/hosts": "",
    "/etc/resolv.conf": "nameserver 127.0.0.1\n",
    "/etc/nsswitch.conf": "hosts: files dns\n",
}
PROGRAM = """
import socket, sys, threading
from datetime import timedelta
from torch.distributed import TCPStore
from ddpdoctor.transport.store import open_store

questions = []
service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
service.bind(("127.0.0.1", 53))

def answer():
    while True:
        question, asker = service.recvfrom(512)
        questions.append(question)
        service.sendto(question[:2] + b"\\x81\\x83" + question[4:], asker)  # there is no such name

threading.Thread(target=answer, daemon=True).start()
if sys.argv[1] == "ours":
    serving = open_store("127.0.0.1", 29500, serve=True, timeout_seconds=60)
else:
    serving = TCPStore("127.0.0.1", 29500, None, True, timedelta(seconds=60), wait_for_workers=False)
questions.clear()
for number in range(2):
    TCPStore("127.0.0.1", 29500, None, False, timedelta(seconds=60)).set(str(number), "")
    serving.get(str(number))
print("asked" if questions else "not asked")
"""


@pytest.mark.root
@pytest.mark.parametrize(("store", "asked"), [("ours", "not asked"), ("torch's", "asked")])
def test_our_store_asks_no_name_service_who_connects(tmp_path: Path, store: str, asked: str) -> None:
    """That torch's own store asks shows that the test can fail."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace of its own needs root")
    mounts = []
    for number, (path, text) in enumerate(FILES.items()):
        (tmp_path / str(number)).write_text(text, encoding="utf-8")
        mounts.append(f"mount --bind {tmp_path / str(number)} {path}")
    inside = " && ".join(["ip link set lo up", *mounts, 'exec "$@"'])
    apart = ["unshare", "--net", "--mount", "sh", "-c", inside, "sh"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace with files of its own here")
    command = [*apart, sys.executable, "-c", PROGRAM, store]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.stdout.split("\n")[0] == asked, ended.stderr

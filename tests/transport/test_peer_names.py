"""Neither end of our stores asks a name service who is at the other; here it knows no name and counts the questions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_SECONDS

FILES = {
    "/etc/hosts": "",
    "/etc/resolv.conf": "nameserver 127.0.0.1\n",
    "/etc/nsswitch.conf": "hosts: files dns\n",
}
SERVICE = """
import os, signal, socket, sys, threading
from datetime import timedelta
from torch.distributed import TCPStore
from ddpdoctor.transport.store import open_store

ours = sys.argv[1] == "ours"
questions = []
service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
service.bind(("127.0.0.1", 53))

def answer():
    while True:
        question, asker = service.recvfrom(512)
        questions.append(question)
        service.sendto(question[:2] + b"\\x81\\x83" + question[4:], asker)  # there is no such name

def serve(ours):
    if ours:
        return open_store("127.0.0.1", 29500, serve=True, timeout_seconds=60)
    return TCPStore("127.0.0.1", 29500, None, True, timedelta(seconds=60), wait_for_workers=False)

def connect(ours):
    if ours:
        return open_store("127.0.0.1", 29500, serve=False, timeout_seconds=60)
    return TCPStore("127.0.0.1", 29500, None, False, timedelta(seconds=60))
"""
SERVES = """
threading.Thread(target=answer, daemon=True).start()
serving = serve(ours)
questions.clear()
for number in range(2):
    connect(False).set(str(number), "")
    serving.get(str(number))
print("asked" if questions else "not asked")
"""
CONNECTS = """
ready, tells = os.pipe()
server = os.fork()
if server == 0:  # a process of its own, which asks nobody once it serves: each question after that is the client's
    serving = serve(True)
    os.write(tells, b"x")
    signal.pause()
try:
    os.close(tells)
    threading.Thread(target=answer, daemon=True).start()
    assert os.read(ready, 1)
    questions.clear()
    connect(ours).set("here", "")
finally:
    os.kill(server, signal.SIGKILL)
print("asked" if questions else "not asked")
"""
NAMES = """
import socket
from ddpdoctor.transport.peer_names import numeric_addresses

asked = []
real = socket.getaddrinfo

def resolve(name, *words, **more):
    asked.append(name)
    if name == "no-such-name.invalid":
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return real(name, *words, **more)

socket.getaddrinfo = resolve
print(numeric_addresses("no-such-name.invalid"), numeric_addresses("::1"), numeric_addresses("127.0.0.1"))
numeric_addresses("127.0.0.1")
print(asked)
"""


@pytest.mark.root
@pytest.mark.parametrize("end", [SERVES, CONNECTS], ids=["serves", "connects"])
@pytest.mark.parametrize(("store", "asked"), [("ours", "not asked"), ("torch's", "asked")])
def test_neither_end_of_our_store_asks_who_is_at_the_other(tmp_path: Path, end: str, store: str, asked: str) -> None:
    """That torch's own store and client ask shows that the test can fail."""
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
    command = [*apart, sys.executable, "-c", SERVICE + end, store]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    assert ended.stdout.split("\n")[0] == asked, ended.stderr


def test_a_name_is_resolved_once_and_one_that_is_not_known_yet_stays_as_it_is() -> None:
    """The master's name may appear in the name service after its first workers have started: torch asks for it again."""
    ended = subprocess.run(
        [sys.executable, "-c", NAMES], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=True
    )
    known, asked = ended.stdout.splitlines()
    assert known == "('no-such-name.invalid',) ('::1',) ('127.0.0.1',)"
    assert asked == "['no-such-name.invalid', '::1', '127.0.0.1']"

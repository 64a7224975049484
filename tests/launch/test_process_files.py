"""A process of any user says itself where its arguments and its environment stand, and how long they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ddpdoctor.host import processes
from ddpdoctor.host.launchers import launchers_at
from ddpdoctor.launch import process_files
from ddpdoctor.launch.process_files import MOST_BYTES, arguments_of, command_of, environment_of, read_of_process
from ddpdoctor.launch.process_tree import members

# PR_SET_MM_MAP: the fields of /proc/self/stat that it needs, and 16 GB of zeros that take no memory
CLAIMS_16_GB = """
import ctypes, sys
size, libc = 16 << 30, ctypes.CDLL(None)
libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
zeros = libc.mmap(None, size, 1, 0x4022, -1, 0)
fields = [None, None, None, *open("/proc/self/stat").read().rpartition(")")[2].split()]
code, data, brk = [26, 27], [45, 46], [47]
places = [*(int(fields[at]) for at in code + data + brk), libc.sbrk(0), int(fields[28])]
asked = (ctypes.c_uint64 * 13)(*places, zeros, zeros + size, zeros, zeros + size, 0, 0xFFFFFFFF << 32)
libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
print(libc.prctl(35, 14, ctypes.addressof(asked), ctypes.sizeof(asked), 0), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def claims() -> Iterator[int]:
    """A process that claims 16 GB of arguments and as much environment, without a privilege."""
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMS_16_GB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "0":
            process.kill()
            pytest.skip("this kernel, or its sandbox, does not let a process say that")
        yield process.pid
        process.kill()


@pytest.mark.timeout(60)
def test_what_a_process_claims_is_read_up_to_a_bound(claims: int) -> None:
    assert len(read_of_process(claims, "environ")) == MOST_BYTES
    assert processes.environ(claims) == {}
    assert len(processes.command(claims)) <= MOST_BYTES
    assert 0 < len(processes.words(claims)) <= MOST_BYTES
    assert launchers_at(claims) == ()
    assert claims not in members(1 << 22, "NAME=value")


def test_environment_and_arguments_are_those_of_the_process() -> None:
    program = "print(flush=True)\ninput()"  # the kernel knows neither while it still loads the program
    with subprocess.Popen(
        [sys.executable, "-c", program, "a b", "", "\udcff"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"A": "1=2", "B": "", "C": "\udcff\n"},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert environment_of(process.pid) == {"A": "1=2", "B": "", "C": "\udcff\n"}
        assert arguments_of(process.pid)[1:] == ["-c", program, "a b", "", "\udcff"]
        assert command_of(process.pid).endswith(" -c print(flush=True) input() a b \udcff")
        process.communicate(b"\n")
    with pytest.raises(OSError):
        environment_of(process.pid)
    assert processes.environ(process.pid) is None
    assert processes.command(process.pid) == "[]"


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (b"", []),
        (b"\0", [""]),
        (b"python\0train it.py\0\0", ["python", "train it.py", ""]),
        (b"python\0train it.py\0--cut-o", ["python", "train it.py", "--cut-o"]),
        (b"nginx: worker process", ["nginx:", "worker", "process"]),
        (b"sshd: user [priv]\0", ["sshd:", "user", "[priv]"]),
    ],
)
def test_a_title_that_a_program_wrote_itself_is_split_at_its_spaces(
    monkeypatch: pytest.MonkeyPatch, held: bytes, words: list[str]
) -> None:
    monkeypatch.setattr(process_files, "read_of_process", lambda *_: held)
    assert arguments_of(1) == words

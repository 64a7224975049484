"""What of a process the kernel tells everybody, and what only its user."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from ddpdoctor.host import processes

ANOTHER = 65534
pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


@pytest.fixture
def zombie() -> Iterator[Callable[[int], int]]:
    """Makes a zombie that ended with this exit code, or with signal N for -N."""
    made: list[int] = []

    def ended(code: int) -> int:
        pid = os.fork()
        if not pid:
            if code < 0:
                os.kill(os.getpid(), -code)
            os._exit(code)
        made.append(pid)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return pid

    yield ended
    for pid in made:
        os.waitpid(pid, 0)


def told_to_another_user(ask: Callable[[], object]) -> str:
    """The representation of what `ask` returns in a process of another user."""
    if os.geteuid() != 0:
        pytest.skip(f"only root can become user {ANOTHER}")
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setresgid(ANOTHER, ANOTHER, ANOTHER)
            os.setresuid(ANOTHER, ANOTHER, ANOTHER)
            os.write(writer, repr(ask()).encode())
        except OSError as error:
            os.write(writer, f"cannot become: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    if said.startswith("cannot become"):
        pytest.skip(said)
    return said


@pytest.mark.parametrize("code", [0, 3, -signal.SIGKILL])
def test_the_exit_code_of_a_zombie_is_told_to_its_user(zombie: Callable[[int], int], code: int) -> None:
    assert processes.exit_code(zombie(code)) == code


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_code_that_the_kernel_keeps_to_itself_is_not_taken_for_0(
    zombie: Callable[[int], int], code: int
) -> None:
    pid = zombie(code)
    assert told_to_another_user(lambda: processes.exit_code(pid)) == "None"

"""Ctrl-C before the first and after the last line of a command."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.waiting import PROGRAM_SECONDS

# Registered before ddpdoctor's, these run after it: the interpreter has nothing more to do than to end.
AT_THE_END = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["ddpdoctor", "--version"]
from ddpdoctor.__main__ import main
main()
"""
# Its destructor runs when the interpreter takes the module apart, after all that atexit calls.
HANGING = """
import sys, time
class Hangs:
    def __del__(self, sleep=time.sleep):
        sleep(600)
hangs = Hangs()
import ddpdoctor.__main__ as program
program.TEARDOWN_SECONDS = 1
sys.argv = ["ddpdoctor", "--version"]
program.main()
"""
IMPORTING = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "ddpdoctor.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from ddpdoctor.__main__ import main
main()
"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_an_interrupt_after_the_verdict_does_not_change_the_exit_code() -> None:
    at_the_end = ended(AT_THE_END)
    assert at_the_end.returncode == 0
    assert at_the_end.stdout.startswith("ddpdoctor ")
    assert at_the_end.stderr == ""


def test_an_interrupt_while_modules_are_imported_is_no_traceback() -> None:
    importing = ended(IMPORTING)
    assert (importing.returncode, importing.stderr) == (130, "ddpdoctor: interrupted\n")


def test_a_destructor_that_hangs_does_not_keep_the_command_for_ever() -> None:
    """Regression: Ctrl-C is ignored while the interpreter ends, and it never did."""
    hanging = ended(HANGING)
    assert hanging.returncode == -signal.SIGALRM
    assert hanging.stdout.startswith("ddpdoctor ")

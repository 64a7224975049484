"""Runs many short programs, a few at a time, and prints how each ended: one JSON line per program, as they end.

A program of its own, standard library only, so that many programs need one interpreter and one subreaper instead of one each:
`python -I -S program_batch.py SECONDS COMMAND...`, each command line as a JSON list in one argument. A line of the output is
`[NUMBER, CODE, STDOUT, STDERR, SECONDS, TIMED_OUT]`. A program is killed after SECONDS. One that has run for `SLOT_SECONDS` no
longer counts among those that run at a time, so that some that hang do not keep the others from their turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

LEAST_AT_ONCE = 4
SLOT_SECONDS = 0.5  # py-spy takes 0.02 s, 0.1 s on a loaded machine


def main() -> int:
    """Run them all; returns 0."""
    seconds = float(sys.argv[1])
    commands = [json.loads(argument) for argument in sys.argv[2:]]
    slots = threading.Semaphore(max(LEAST_AT_ONCE, os.cpu_count() or 1))
    printing = threading.Lock()
    threads = []
    for number, command in enumerate(commands):
        slots.acquire()
        thread = threading.Thread(target=_run, args=(number, command, seconds, slots, printing), daemon=True)
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    return 0


def _run(number: int, command: list[str], seconds: float, slots: threading.Semaphore, printing: threading.Lock) -> None:
    began = time.monotonic()
    timed_out = False
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        slots.release()
        code, stdout, stderr = 127, "", f"{command[0]}: {error.strerror}\n"
    else:
        try:
            stdout, stderr = process.communicate(timeout=min(SLOT_SECONDS, seconds))
            slots.release()
        except subprocess.TimeoutExpired:
            slots.release()
            try:
                stdout, stderr = process.communicate(timeout=max(0.0, seconds - SLOT_SECONDS))
            except subprocess.TimeoutExpired:
                timed_out = True
                process.kill()
                stdout, stderr = process.communicate()
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    line = json.dumps([number, code, stdout, stderr, time.monotonic() - began, timed_out])
    with printing:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Known attacks on somebody who points ddpdoctor at a stranger's files: the input, and what it must not achieve.

`ATTACKS` lists those that are a folder and a command line. Each is tried against all laws of `tests/fuzz/__main__.py` (an exit
code of the table, no traceback, nothing run, nothing unescaped, time and memory bounded by the size of the input), and against
what is said in its entry.
"""

from __future__ import annotations

from tests.attacks import (
    absurd_numbers,
    foreign_code,
    malformed_files,
    secret_texts,
    small_and_costly,
    terminal,
    unusual_files,
)
from tests.attacks.attack import Attack

ATTACKS: dict[str, Attack] = {
    **foreign_code.ATTACKS,
    **unusual_files.ATTACKS,
    **absurd_numbers.ATTACKS,
    **small_and_costly.ATTACKS,
    **terminal.ATTACKS,
    **secret_texts.ATTACKS,
    **malformed_files.ATTACKS,
}

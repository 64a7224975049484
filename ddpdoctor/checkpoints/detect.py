"""Whether a path is meant as a checkpoint or as a training script; imports no torch."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

from ddpdoctor.errors import UsageError
from ddpdoctor.regular_file import open_regular, read_regular

PYTHON_SUFFIXES = frozenset({".py", ".pyw", ".pyc"})
MOST_SCRIPT_BYTES = 4 << 20  # the longest program that people wrote by hand is a tenth of it
SUFFIXES = frozenset({".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp", ".pkl", ".pickle"})
ZIP, PICKLE = b"PK\x03\x04", b"\x80"


def is_checkpoint(path: Path) -> bool:
    """Whether `path` is a directory, is named like a checkpoint, or begins like one; it need not exist.

    Raises:
        UsageError: it is a file that cannot be read.
    """
    if path.suffix.lower() in SUFFIXES or path.is_dir():
        return True
    if path.suffix.lower() == ".py" or not path.is_file():
        return False
    try:
        with open_regular(path) as file:
            head = file.read(9)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return head.startswith((ZIP, PICKLE)) or is_safetensors(head)


def is_safetensors(head: bytes) -> bool:
    """Whether the first nine bytes of a file are those of safetensors: the length of a JSON object, and its brace."""
    return len(head) == 9 and head[8:] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32


def is_python_script(path: Path) -> bool:
    """Whether Python could have been meant to run the file: by its suffix, its first line, or, where it has neither, its text.

    JSON is also an expression of Python: a file without a statement that does something is no script.
    """
    if path.suffix:
        return path.suffix.lower() in PYTHON_SUFFIXES
    try:
        if path.stat().st_size > MOST_SCRIPT_BYTES:
            return False
        text = read_regular(path, most=MOST_SCRIPT_BYTES).decode()
        if text.startswith("#!"):
            return "python" in text.partition("\n")[0]
        with warnings.catch_warnings():  # of odd escapes in the user's text
            warnings.simplefilter("ignore")
            statements = ast.parse(text).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return any(not isinstance(each, ast.Expr) or isinstance(each.value, ast.Call) for each in statements)

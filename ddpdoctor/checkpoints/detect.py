"""Whether a path is meant as a checkpoint or as a training script; imports no torch."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = frozenset({".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp", ".pkl", ".pickle"})
ZIP, PICKLE = b"PK\x03\x04", b"\x80"


def is_checkpoint(path: Path) -> bool:
    """Whether `path` is a directory, is named like a checkpoint, or begins like one; it need not exist."""
    if path.suffix.lower() in SUFFIXES or path.is_dir():
        return True
    if path.suffix.lower() == ".py" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(9)
    return head.startswith((ZIP, PICKLE)) or is_safetensors(head)


def is_safetensors(head: bytes) -> bool:
    """Whether the first nine bytes of a file are those of safetensors: the length of a JSON object, and its brace."""
    return len(head) == 9 and head[8:] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32

"""From a path to the reader of its format, or to the reason why there is none."""

from __future__ import annotations

from pathlib import Path

from ddpdoctor.checkpoints.detect import PICKLE, ZIP, is_safetensors
from ddpdoctor.checkpoints.reader import Stored, UnreadableError
from ddpdoctor.regular_file import open_regular


def open_checkpoint(path: Path) -> Stored:
    """The checkpoint at `path`.

    Raises:
        UnreadableError: it is empty, of another format, or cannot be opened.
    """
    from ddpdoctor.checkpoints.dcp import METADATA, DcpDirectory
    from ddpdoctor.checkpoints.pt import PtFile
    from ddpdoctor.checkpoints.safetensors_file import SafetensorsFile

    if path.is_dir():
        if (path / METADATA).is_file():
            return DcpDirectory(path)
        raise UnreadableError(f"is a directory without {METADATA}, so it is not a torch.distributed.checkpoint")
    try:
        with open_regular(path) as file:
            head = file.read(9)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from None
    if not head:
        raise UnreadableError("is empty")
    if path.suffix.lower() == ".distcp":
        raise UnreadableError("is one piece of a torch.distributed.checkpoint directory: give the directory")
    if head.startswith(ZIP):
        return PtFile(path)
    if path.suffix.lower() == ".safetensors" or is_safetensors(head):
        return SafetensorsFile(path)
    if head.startswith(PICKLE):
        raise UnreadableError(
            "is a bare pickle, which can run code when it is read, so it was not read; torch.save of PyTorch 1.6 and later "
            "writes a zip archive: load it where you trust it and save it again"
        )
    raise UnreadableError("is neither a torch.save file nor safetensors")

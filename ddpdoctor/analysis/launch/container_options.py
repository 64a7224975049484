"""What `docker run` and its like give to the container that a command runs in: GPUs and shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from ddpdoctor.whole_numbers import whole_number

_ENGINES = frozenset({"docker", "podman", "nerdctl", "nvidia-docker"})
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,12})([kmgtb]?)b?", re.IGNORECASE)
_STARTS = re.compile(r"torchrun|python[\d.]{0,5}|accelerate|deepspeed|(?:ba|z)?sh")
"""What runs in the container: the words before it are the options and the image."""
_UNKNOWN = re.compile(r"\$.{1,200}|«.{0,200}»")
"""A word that may hold any options; behind an option it is that one's value, and as the last word it is the image."""
DEFAULT_BYTES = 64 << 20  # of /dev/shm, as docker and podman give it


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOptions:
    """The options of one `docker run` or `runai submit`."""

    program: str
    """`docker run`, `podman run`, `runai submit`."""
    gpus: int | None = None
    """The GPUs that it asks for; None where it asks for all or none, or not in a number."""
    shared_memory_bytes: int | None = None
    """The size of /dev/shm; None where it is the host's, or not said in a number."""
    given: bool = False
    """Whether the command itself says the size."""


def container_options(words: Sequence[str]) -> ContainerOptions | None:
    """The container that a command runs in; None where `words`, all up to what runs in it, start none."""
    for at, word in enumerate(words[:-1]):
        name = word.rpartition("/")[2]
        if name in _ENGINES and words[at + 1] == "run":
            return _docker(f"{name} run", words[at + 2 :])
        if name == "runai" and words[at + 1] == "submit":
            values = dict(_values(words[at + 2 :]))
            return ContainerOptions(
                program="runai submit", gpus=whole_number(values.get("-g", values.get("--gpu", "")))
            )
    return None


def _docker(program: str, following: Sequence[str]) -> ContainerOptions:
    words = [*takewhile(lambda word: not _STARTS.fullmatch(word.rpartition("/")[2]), following)]
    values = dict(_values(words))
    mounted = any("/dev/shm" in word for word in words)  # noqa: S108 - a path in a container
    options = [word for before, word in pairwise(words[:-1]) if not before.startswith("-")]
    if "--ipc" in values or mounted or any(_UNKNOWN.fullmatch(word) for word in (*words[:1], *options)):
        return ContainerOptions(program=program, gpus=_gpus(values.get("--gpus", "")))
    size = _SIZE.fullmatch(values.get("--shm-size", ""))
    return ContainerOptions(
        program=program,
        gpus=_gpus(values.get("--gpus", "")),
        shared_memory_bytes=int(size[1]) * _UNITS[size[2].lower()]
        if size
        else (None if "--shm-size" in values else DEFAULT_BYTES),
        given=size is not None,
    )


def _values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if word.startswith("-"):
            yield name, value if sign else following


def _gpus(value: str) -> int | None:
    """The number of `2`, of `device=0,1` and of `"device=0,1"`."""
    text = value.strip("'\"")
    name, sign, devices = text.partition("=")
    return len(devices.split(",")) if sign and name == "device" else whole_number(text)

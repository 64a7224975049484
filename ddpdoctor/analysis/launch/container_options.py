"""What `docker run` and its like give to the container that a command runs in: GPUs and shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.whole_numbers import whole_number

_ENGINES = frozenset({"docker", "podman", "nerdctl", "nvidia-docker"})
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,12})([kmgtb]?)b?", re.IGNORECASE)
_STARTS = re.compile(r"torchrun|python[\d.]{0,5}|accelerate|deepspeed|(?:ba|z)?sh|env")
"""What runs in the container: an unknown word in front of it is the image."""
_FLAGS = frozenset(
    {
        "--detach", "--disable-content-trust", "--env-host", "--help", "--http-proxy", "--init", "--interactive",
        "--no-healthcheck", "--no-hostname", "--no-hosts", "--oom-kill-disable", "--passwd", "--privileged", "--publish-all",
        "--quiet", "--read-only", "--read-only-tmpfs", "--replace", "--rm", "--rmi", "--rootfs", "--sig-proxy",
        "--tls-verify", "--tty", "--unsetenv-all",
        "--use-api-socket",
    }
)  # fmt: skip
"""The options of docker, podman and nerdctl that take no value of their own; every other one does."""
_SHORT_FLAGS = frozenset("dhiPqt")
_ELSEWHERE = frozenset({"--ipc", "--pod", "--pod-id-file", "--volumes-from"})
"""Options that can give the container the /dev/shm of something else."""
_MOUNTS = frozenset({"-v", "--volume", "--mount", "--tmpfs"})
_VARIABLE = re.compile(r"\$\{?\w{1,200}\}?|«.{0,200}»", re.DOTALL)
_MANY_WORDS = re.compile(r"[@*]|\$\(|`|«|ARG|OPT|FLAG", re.IGNORECASE)
"""What stands in an unknown word that may be several: `"$@"`, `${OPTS[@]}`, `$(cat options)`, `$DOCKER_ARGS`."""
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


def _docker(program: str, words: Sequence[str]) -> ContainerOptions:
    options, complete = _options(words)
    values = dict(options)
    gpus = _gpus(values.get("--gpus", ""))
    mounts = [value for name, value in options if name in _MOUNTS]
    mounted = any("/dev/shm" in value or _VARIABLE.fullmatch(value) for value in mounts)  # noqa: S108 - a path in a container
    if not complete or mounted or not _ELSEWHERE.isdisjoint(values):
        return ContainerOptions(program=program, gpus=gpus)
    if "--shm-size" not in values:
        return ContainerOptions(program=program, gpus=gpus, shared_memory_bytes=DEFAULT_BYTES)
    size = _SIZE.fullmatch(values["--shm-size"])
    given = int(size[1]) * _UNITS[size[2].lower()] if size else 0  # 0 is no limit in podman
    return ContainerOptions(program=program, gpus=gpus, shared_memory_bytes=given or None, given=given > 0)


def _options(words: Sequence[str]) -> tuple[list[tuple[str, str]], bool]:
    """The options in front of the image, and whether these are all: no unknown word may hold more, and there is an image."""
    options: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-"):  # the image, or an unknown word
            following = words[at].rpartition("/")[2] if at < len(words) else ""
            unknown = word.startswith(("$", "«", "`"))
            return options, not unknown or (_STARTS.fullmatch(following) is not None and not _MANY_WORDS.search(word))
        name, value, takes = _option(word)
        if "$" in name or "«" in name:
            return options, False
        if takes and at < len(words):
            value, at = words[at], at + 1
        options.append((name, value))
    return options, False


def _option(word: str) -> tuple[str, str, bool]:
    """The name and the value of `--name=value`, `-itv`, `-p80:80`, and whether the next word is the value."""
    if word.startswith("--"):
        name, sign, value = word.partition("=")
        return name, value, not sign and name not in _FLAGS and name != "--"
    letters = word[1:].partition("=")[0]
    at = next((at for at, letter in enumerate(letters, 1) if letter not in _SHORT_FLAGS), 0)
    if not at:
        return word, "", False
    return f"-{word[at]}", word[at + 1 :].removeprefix("="), not word[at + 1 :]


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

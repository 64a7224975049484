"""Files that hold flight-recorder dumps: which they are, whose rank, and what is in them, without trusting one of them.

Hundreds of them are read by as many processes as there are processors.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import re
import resource
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from ddpdoctor.catalogue import all_checks
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.host.owned_files import read_owned
from ddpdoctor.launch.reading_pool import ReadingPool
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.fr_repeats import restored, shortened

MAX_DUMP_BYTES = 1 << 30  # a full ring of 20,000 entries with stacks of their own is 100 MB
MEMORY_FOR_A_BYTE = 60  # measured: 12 bytes of containers for a byte of dump; five times that is left for odd ones
MEMORY_FOR_ANY = 512 << 20

WORTH_IT = 64  # files from which starting processes costs less than it saves
AT_ONCE = 16  # files for one process at a time: what ranks share is then sent back once
MAX_PROCESSES = 16

MOST_DIGITS = len(str(MOST_RANKS))
MOST_DIGITS_OF_AN_ADDRESS = len(str(1 << 64)) + 1
_RANK = re.compile(r"rank[_\-.]?(\d+)(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


_MOMENTS = ("created_ns", "completed_ns")
_ALIKE = ("calls", "frames", "stacks", "call", "seq", "stack", "state")
"""The columns that ranks share which do the same."""


class _Containers(pickle.Unpickler):
    """An unpickler that knows builtin containers and scalars: whatever a file asks for, no code of anybody runs."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse: a dump needs no class and no function."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no dump needs: it is refused")

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002 - the name and its place are pickle's
        """Refuse: a dump refers to nothing outside itself."""
        raise pickle.UnpicklingError("it refers to an object outside of the file: it is refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """One file that holds a flight recorder's dump."""

    path: Path
    """The file that it was read from."""
    rank: int
    """The rank that wrote it, by the name of the file or its folder."""
    record: FlightRecord
    """Its content, checked."""


def looks_like_dump(head: bytes) -> bool:
    """Whether a file that begins with `head` may be a flight-recorder dump, in pickle or JSON."""
    if head[:1] == b"\x80":
        return True
    return head.lstrip()[:1] == b"{" and any(
        key in head for key in (b'"pg_config"', b'"entries"', b'"comm_lib_version"')
    )


def read_dump(path: Path, owner: int | None = None) -> Dump:
    """The dump in the file at `path`, its rank read from the name; with `owner` it must be a file of that user.

    Raises:
        UndecidedError: the file cannot be read, is damaged, is hostile, or its name contains no rank; says which file.
    """
    try:
        data = _bytes_of(path, owner)
        with _no_garbage_collection(), _memory_at_most(MEMORY_FOR_ANY + MEMORY_FOR_A_BYTE * len(data)):
            record = _record(data, path.stat().st_mtime)
        return Dump(path=path, rank=rank_of(path), record=record)
    except OSError as error:
        raise UndecidedError(f"{path} cannot be read: {error.strerror}") from None
    except MemoryError:
        raise UndecidedError(
            f"{path}: its containers are shared so often that they take all memory: it is refused"
        ) from None
    except ValueError as error:
        raise UndecidedError(f"{path}: {error}") from None
    except UndecidedError as error:
        raise UndecidedError(f"{path}: {error.message}", hint=error.hint) from None


def _record(data: bytes, taken_at: float) -> FlightRecord:
    """The record in a dump; entries that repeat others but for their numbers are not decoded where that is possible."""
    short = shortened(data)
    if short is not None:
        with suppress(UndecidedError):  # said of the shorter pickle, it may not hold for the file
            document = decode(short.data)
            entries = restored(document.get("entries"), short) if isinstance(document, Mapping) else None
            if entries is not None:
                return record_of(document, taken_at=taken_at, entries=entries)
    return record_of(decode(data), taken_at=taken_at)


def thread_ids(path: Path, owner: int | None) -> frozenset[int]:
    """The addresses by which the threads that made the calls of a dump know themselves; empty where it does not tell any.

    Raises:
        UndecidedError: the dump cannot be decoded.
        OSError: the file cannot be read.
    """
    document = decode(_bytes_of(path, owner))
    entries = document.get("entries") if isinstance(document, Mapping) else None
    told = (entry.get("thread_id") for entry in entries or () if isinstance(entry, Mapping))
    return frozenset(
        int(one) for one in told if isinstance(one, str) and one.isdecimal() and len(one) < MOST_DIGITS_OF_AN_ADDRESS
    )


def read_dumps(files: Sequence[Path]) -> Iterator[Dump | UndecidedError]:
    """Each file's dump, or what is wrong with it, in order."""
    processes = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    if len(files) < WORTH_IT or processes < 2:
        yield from map(_read, files)
        return
    chunks = [files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE)]
    alike = _Alike()
    with ReadingPool(processes) as pool:
        reading = [pool.submit(_read_all, chunk) for chunk in chunks]
        all_checks()  # imported while the processes read, it costs no time
        for chunk, found in zip(chunks, reading, strict=True):
            with _no_garbage_collection():
                dumps = _result(chunk, found, alike)
            yield from dumps


def _result(
    files: Sequence[Path], found: Future[list[_Sent | UndecidedError]], alike: _Alike
) -> list[Dump | UndecidedError]:
    """What a process read; where it, or another one of the pool, was killed, the files are read again, each alone."""
    try:
        return [one.dump(alike) if isinstance(one, _Sent) else one for one in found.result()]
    except BrokenProcessPool:
        return [_read_apart(file) for file in files]


def _read_apart(file: Path) -> Dump | UndecidedError:
    """The dump, read by a process of its own: whatever kills that costs this file and no other one."""
    with ReadingPool(1) as pool:
        try:
            return pool.submit(_read, file).result()
        except BrokenProcessPool:
            return UndecidedError(f"{file}: the process that read it was killed")


def _read_all(files: Sequence[Path]) -> list[_Sent | UndecidedError]:
    found = map(_read, files)
    return [_Sent(one) if isinstance(one, Dump) else one for one in found]


class _Alike:
    """The first of all columns that are equal: what processes read apart is kept, and looked at, once."""

    def __init__(self) -> None:
        self._first: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._known: dict[int, tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        """By identity, a column and the first that equals it: the ranks that one process read share their columns already."""

    def first(self, column: tuple[Any, ...]) -> tuple[Any, ...]:
        """The first column that equals this one."""
        if id(column) not in self._known:
            self._known[id(column)] = column, self._first.setdefault(column, column)
        return self._known[id(column)][1]


class _Sent:
    """A dump on its way from the process that read it: moments are sent as bytes, for a tenth of the cost of integers."""

    def __init__(self, dump: Dump) -> None:
        self._path, self._rank = dump.path, dump.rank
        self._columns = {one.name: getattr(dump.record, one.name) for one in fields(FlightRecord)}
        with suppress(OverflowError):
            self._columns |= {name: array("q", self._columns[name]) for name in _MOMENTS}

    def dump(self, alike: _Alike) -> Dump:
        """The dump as it was read; columns that equal those of an earlier one are the same objects."""
        self._columns |= {name: tuple(self._columns[name]) for name in _MOMENTS}
        self._columns |= {name: alike.first(self._columns[name]) for name in _ALIKE}
        return Dump(path=self._path, rank=self._rank, record=FlightRecord(**self._columns))


def _read(file: Path) -> Dump | UndecidedError:
    try:
        return read_dump(file)
    except UndecidedError as error:
        return UndecidedError(error.message)


def _bytes_of(path: Path, owner: int | None) -> bytes:
    size = path.stat().st_size
    if size > MAX_DUMP_BYTES:
        raise UndecidedError(f"it has {size} bytes; a dump has at most {MAX_DUMP_BYTES}")
    return path.read_bytes() if owner is None else read_owned(path, owner)


def decode(data: bytes) -> Any:  # noqa: ANN401 - containers and scalars of any shape
    """The containers and scalars in a pickle or a JSON text.

    Raises:
        UndecidedError: it is neither, it is cut off, it asks for code to be run, or it wants absurd amounts of memory.
    """
    if not data:
        raise UndecidedError("it is empty")
    with _memory_at_most(MEMORY_FOR_ANY + MEMORY_FOR_A_BYTE * len(data)):
        try:
            if data[:1] == b"\x80":
                return _Containers(io.BufferedReader(io.BytesIO(data))).load()  # that can peek: 3x faster
            return msgspec.json.decode(data)
        except MemoryError:
            raise UndecidedError(
                f"it wants far more memory than its {len(data)} bytes can need: it is refused"
            ) from None
        except EOFError:
            raise UndecidedError(f"it is cut off after {len(data)} bytes") from None
        except pickle.UnpicklingError as error:
            cut = "truncated" in str(error) or "exhausted" in str(error)
            raise UndecidedError(f"it is cut off after {len(data)} bytes" if cut else str(error)) from None
        except Exception as error:  # noqa: BLE001 - a damaged file may raise anything
            raise UndecidedError(f"it is neither a pickle nor JSON ({str(error)[:100]})") from None


def rank_of(path: Path) -> int:
    """The rank in a file's name: behind the word `rank`, or the last number; else in the nearest folder's name.

    Raises:
        UndecidedError: no name tells it.
    """
    for name in (path.stem if path.suffix in {".json", ".pkl", ".pickle", ".bin"} else path.name, path.parent.name):
        found = [*_RANK.findall(name)[:1], *_NUMBER.findall(name)[-1:]]
        if found and len(found[0]) > MOST_DIGITS:
            raise UndecidedError(f"its name contains no rank: {found[0][:MOST_DIGITS]}... is too large")
        if found:
            return int(found[0])
    raise UndecidedError("its name contains no rank", hint="name it rank_N, as in nccl_trace_rank_3")


@contextmanager
def _memory_at_most(extra: int) -> Iterator[None]:
    """Make allocations beyond `extra` bytes more than now fail with MemoryError, instead of ending the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _address_space() + extra
    unlimited = resource.RLIM_INFINITY
    lowered = wanted if soft == unlimited else min(soft, wanted)
    resource.setrlimit(resource.RLIMIT_AS, (lowered, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Containers and scalars from a file hold no cycles worth looking for, and the search costs a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

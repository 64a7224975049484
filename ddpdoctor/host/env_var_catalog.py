"""Which of the variables that are set some library on this host knows, and what the others were perhaps meant to be.

The names come from the installed files themselves: the headers and Python sources of torch, then the read-only strings
of libtorch and libnccl, which are searched only when a variable is set that the others do not know.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import mmap
import re
import struct
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path

from ddpdoctor.evidence.variables import KnownNames, NameLookup, NcclConfigFiles
from ddpdoctor.host.host_access import HostAccess

PREFIXES = ("TORCH_NCCL_", "TORCH_FR_", "TORCH_DISTRIBUTED_", "TORCH_GLOO_", "TORCHELASTIC_", "GLOO_", "NCCL_")
PLUGINS = re.compile(r"NCCL_(TOPO_|TUNER_|NET_|NVTX|TESTS_|OFI_|GIN_|FASTRAK_|LLCM_|GPUVIZ_|SHIMNET_|UCX_|PLUGIN_)")
"""Names that plugins beside NCCL read too: whether they are known cannot be told from libnccl alone."""

DOCUMENTED = (
    "NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_CGA_CLUSTER_SIZE", "NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS", "NCCL_COLLNET_ENABLE",
    "NCCL_COLLNET_NODE_THRESHOLD", "NCCL_COMM_BLOCKING", "NCCL_COMM_ID", "NCCL_CONF_FILE", "NCCL_CROSS_NIC",
    "NCCL_CTA_POLICY", "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT", "NCCL_DMABUF_ENABLE", "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_GRAPH_REGISTER",
    "NCCL_HOSTID", "NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_DISABLE", "NCCL_IB_ECE_ENABLE", "NCCL_IB_FIFO_TC", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA",
    "NCCL_IB_MERGE_NICS", "NCCL_IB_MERGE_VFS", "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_RETRY_CNT", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_SL", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_LAUNCH_MODE", "NCCL_LEGACY_CUDA_REGISTER", "NCCL_LL128_BUFFSIZE",
    "NCCL_LL_BUFFSIZE", "NCCL_LOCAL_REGISTER", "NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MNNVL_ENABLE",
    "NCCL_NET", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NSOCKS_PERTHREAD", "NCCL_NTHREADS",
    "NCCL_NVB_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME", "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_PXN_LEVEL", "NCCL_PROTO", "NCCL_PXN_DISABLE",
    "NCCL_RAS_ADDR", "NCCL_RAS_ENABLE", "NCCL_RUNTIME_CONNECT", "NCCL_SET_STACK_SIZE", "NCCL_SET_THREAD_NAME",
    "NCCL_SHM_DISABLE", "NCCL_SHM_LOCALITY", "NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_SOCKET_RETRY_CNT",
    "NCCL_WIN_ENABLE", "NCCL_WORK_FIFO_DEPTH",
)  # fmt: skip
"""The names in NCCL's guide, to compare a misspelt one with where no libnccl is at hand."""

NEAR = 0.85  # two letters in a name of fifteen
_FILLERS = frozenset({"LEVEL", "MODE", "FLAG", "VALUE", "ENABLED", "ON"})
NCCL_NAMES = 50  # a library with NCCL in it holds more than a hundred; libtorch alone mentions five
_NAME = re.compile(rb"(?<![A-Z0-9_a-z])(?:TORCHELASTIC|TORCH|GLOO|NCCL)_[A-Z][A-Z0-9_]{2,60}(?![A-Za-z0-9_])")
_PAIR = re.compile(r'"((?:TORCH|NCCL)_[A-Z0-9_]+)"\s*,\s*"((?:TORCH_)?NCCL_[A-Z0-9_]+)"')


def collect(access: HostAccess) -> Iterator[KnownNames | NcclConfigFiles]:
    """What the installed libraries know of this environment."""
    yield _config_files(access)
    yield known_names(frozenset(access.environ), torch_folder(), tuple(nccl_libraries(access)))


def torch_folder() -> Path | None:
    """Where torch is installed, found without importing it."""
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent
    return None


def nccl_libraries(access: HostAccess) -> Iterator[Path]:
    """Every file that may be the NCCL of a job started here."""
    folders = [Path(folder) for folder in access.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    folders.append(Path(sysconfig.get_path("purelib")) / "nvidia" / "nccl" / "lib")
    folders += [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu"), Path("/usr/lib64")]
    seen = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            for path in sorted(folder.glob("libnccl.so*")):
                if path.resolve() not in seen:
                    seen.add(path.resolve())
                    yield path.resolve()


def known_names(set_here: frozenset[str], torch: Path | None, nccl: tuple[Path, ...]) -> KnownNames:
    """What `torch` and the `nccl` libraries know of the names in `set_here` that carry their prefixes."""
    asked = sorted(name for name in set_here if name.startswith(PREFIXES))
    cheap, renamed = _in_sources(torch) if torch is not None and asked else (set(), {})
    unjudged: dict[str, str] = {}
    libraries: tuple[Path, ...] = ()
    known = set(cheap)
    if any(name not in known for name in asked):
        in_torch = [*sorted((torch / "lib").glob("libtorch*.so"))] if torch is not None else []
        libraries = (*in_torch, *nccl)
        for path in libraries:
            known |= names_in(path)
    has_nccl = sum(name.startswith("NCCL_") for name in known) >= NCCL_NAMES
    known.update(DOCUMENTED)
    judged = []
    for name in asked:
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=NEAR) or _without_filler(name, known)
        if name in known or name in renamed:
            judged.append(NameLookup(name=name, known=True))
        elif torch is None and not name.startswith("NCCL_"):
            unjudged[name] = "torch is not installed here"
        elif PLUGINS.match(name):
            unjudged[name] = "a plugin of NCCL may read it"
        elif name.startswith("NCCL_") and not has_nccl and not near:
            unjudged[name] = "no libnccl on this host"
        else:
            judged.append(NameLookup(name=name, known=False, nearest=near[0] if near else None))
    return KnownNames(
        read=tuple(path.name for path in libraries), judged=tuple(judged), renamed=renamed, unjudged=unjudged
    )


def _without_filler(name: str, known: Collection[str]) -> list[str]:
    """A known name to which a word was added that says nothing: `NCCL_DEBUG` for `NCCL_DEBUG_LEVEL`."""
    first, _, last = name.rpartition("_")
    return [first] if last in _FILLERS and first in known else []


def _in_sources(torch: Path) -> tuple[set[str], dict[str, str]]:
    """The names in torch's headers and Python sources about processes, and old name -> new name."""
    names: set[str] = set()
    renamed: dict[str, str] = {}
    for path in (torch / "include" / "torch" / "csrc" / "distributed" / "c10d").glob("*.h*"):
        content = path.read_bytes()
        names.update(match.decode() for match in _NAME.findall(content))
        renamed.update({old: new for new, old in _PAIR.findall(content.decode(errors="replace"))})
    for folder in ("elastic", "launcher"):
        for path in (torch / "distributed" / folder).rglob("*.py"):
            names.update(match.decode() for match in _NAME.findall(path.read_bytes()))
    for name in ("distributed_c10d.py", "run.py", "rendezvous.py", "constants.py"):
        with contextlib.suppress(OSError):
            names.update(match.decode() for match in _NAME.findall((torch / "distributed" / name).read_bytes()))
    return names, renamed


def names_in(library: Path) -> set[str]:
    """The names of variables among the read-only strings of a shared object; none where it is not readable ELF."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            start, size = _rodata(image)
            return {match.decode() for match in _NAME.findall(image[start : start + size])}
    except (OSError, ValueError, OverflowError, struct.error):
        return set()


def _rodata(image: mmap.mmap) -> tuple[int, int]:
    """Offset and size of the section `.rodata` in a 64-bit little-endian ELF file.

    Raises:
        ValueError: it is no such file.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    (names_offset,) = struct.unpack_from("<Q", image, table + names_index * entry_size + 0x18)
    for index in range(count):
        header = table + index * entry_size
        (name,) = struct.unpack_from("<I", image, header)
        if image[names_offset + name : names_offset + name + 8] == b".rodata\0":
            offset, size = struct.unpack_from("<QQ", image, header + 0x18)
            return offset, size
    raise ValueError("no section .rodata")


def _config_files(access: HostAccess) -> NcclConfigFiles:
    """NCCL's files in the order in which it reads them; a variable that is set already keeps its value."""
    home = access.environ.get("HOME", "")
    user = access.environ.get("NCCL_CONF_FILE") or (f"{home}/.nccl.conf" if home else "")
    files: dict[str, dict[str, str]] = {}
    for path in filter(None, (user, "/etc/nccl.conf")):
        text = access.text(path)
        if text is not None:
            lines = (line.split("#", 1)[0].partition("=") for line in text.splitlines())
            files[path] = {name.strip(): value.strip() for name, mark, value in lines if mark and name.strip()}
    return NcclConfigFiles(files=files)

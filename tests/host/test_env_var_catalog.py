"""Real names come from the libraries that are installed; misspelt ones get the nearest."""

from __future__ import annotations

import string
import struct
from pathlib import Path

import pytest

from ddpdoctor.evidence.variables import KnownNames, NameLookup, NcclConfigFiles
from ddpdoctor.host.env_var_catalog import collect, known_names, names_in, torch_folder
from ddpdoctor.host.host_access import HostAccess


def shared_object(path: Path, *strings: str) -> Path:
    """The smallest ELF file with a section `.rodata`."""
    rodata = b"\0" + b"\0".join(text.encode() for text in strings) + b"\0"
    names = b"\0.rodata\0.shstrtab\0"
    table = 64 + len(rodata) + len(names)
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 0x28, table)
    struct.pack_into("<HHH", header, 0x3A, 64, 3, 2)
    sections = bytearray(3 * 64)
    struct.pack_into("<I", sections, 64, 1)
    struct.pack_into("<QQ", sections, 64 + 0x18, 64, len(rodata))
    struct.pack_into("<I", sections, 128, 9)
    struct.pack_into("<QQ", sections, 128 + 0x18, 64 + len(rodata), len(names))
    path.write_bytes(bytes(header) + rodata + names + bytes(sections))
    return path


def judged(*names: str, nccl: tuple[Path, ...] = ()) -> dict[str, NameLookup]:
    return {lookup.name: lookup for lookup in known_names(frozenset(names), torch_folder(), nccl).judged}


def test_names_that_torch_reads_are_known_and_a_misspelt_one_gets_the_nearest() -> None:
    found = judged(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYN_ERROR_HANDLING", "TORCHELASTIC_RUN_ID", "GLOO_SOKET_IFNAME",
        "TORCH_DISTRIBUTED_DEBUG", "TORCH_HOME", "TORCH_CUDA_ARCH_LIST", "CUDA_HOME", "OFI_NCCL_PROTOCOL",
    )  # fmt: skip

    assert found["TORCH_NCCL_ASYNC_ERROR_HANDLING"].known
    assert found["TORCHELASTIC_RUN_ID"].known
    assert found["TORCH_DISTRIBUTED_DEBUG"].known
    assert found["TORCH_NCCL_ASYN_ERROR_HANDLING"].nearest == "TORCH_NCCL_ASYNC_ERROR_HANDLING"
    assert found["GLOO_SOKET_IFNAME"].nearest == "GLOO_SOCKET_IFNAME"
    assert len(found) == 5, "names with other prefixes are nobody's business"


def test_the_headers_of_torch_say_what_was_renamed() -> None:
    renamed = known_names(frozenset({"NCCL_DEBUG"}), torch_folder(), ()).renamed
    assert renamed["NCCL_ASYNC_ERROR_HANDLING"] == "TORCH_NCCL_ASYNC_ERROR_HANDLING"
    assert renamed["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "TORCH_FR_BUFFER_SIZE"


def test_an_installed_nccl_decides_over_its_names(tmp_path: Path) -> None:
    names = [f"NCCL_{kind}_{letter * 3}" for kind in ("SETTING", "OTHER") for letter in string.ascii_uppercase]
    library = shared_object(tmp_path / "libnccl.so.2", *names)

    found = judged("NCCL_SETTING_AAA", "NCCL_NEVER_HEARD_OF_IT", "NCCL_TUNER_PLUGIN", nccl=(library,))

    assert found["NCCL_SETTING_AAA"].known
    assert found["NCCL_NEVER_HEARD_OF_IT"] == NameLookup(name="NCCL_NEVER_HEARD_OF_IT", known=False)
    assert "NCCL_TUNER_PLUGIN" not in found


def test_without_nccl_its_names_are_judged_only_where_a_common_one_is_near(tmp_path: Path) -> None:
    names = known_names(frozenset({"NCCL_DEBUGG", "NCCL_NEVER_HEARD_OF_IT"}), tmp_path, ())
    assert [lookup.nearest for lookup in names.judged] == ["NCCL_DEBUG"]
    assert names.unjudged == {"NCCL_NEVER_HEARD_OF_IT": "no libnccl on this host"}


def test_a_word_that_says_nothing_behind_a_known_name_is_named_with_it(tmp_path: Path) -> None:
    names = known_names(
        frozenset({"NCCL_DEBUG_LEVEL", "NCCL_IB_DISABLE_ON", "NCCL_P2P_LEVEL", "NCCL_DEBUG_CACHE", "NCCL_FOO_LEVEL"}),
        tmp_path,
        (),
    )
    nearest = {lookup.name: lookup.nearest for lookup in names.judged if not lookup.known}
    assert nearest == {"NCCL_DEBUG_LEVEL": "NCCL_DEBUG", "NCCL_IB_DISABLE_ON": "NCCL_IB_DISABLE"}
    assert set(names.unjudged) == {"NCCL_DEBUG_CACHE", "NCCL_FOO_LEVEL"}


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 200, b"text" * 100])
def test_what_is_no_library_holds_no_names(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libnccl.so.2"
    path.write_bytes(content)
    assert names_in(path) == set()


def test_nccls_files_are_read_with_the_users_first(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("# site\nNCCL_DEBUG=WARN # all\n\nNCCL_SOCKET_IFNAME==ens1f0\n")
    access = HostAccess(root=tmp_path, environ={"HOME": "/nowhere"})

    facts = {type(fact): fact for fact in collect(access)}

    assert facts[NcclConfigFiles].files == {"/etc/nccl.conf": {"NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "=ens1f0"}}
    assert facts[KnownNames].judged == ()

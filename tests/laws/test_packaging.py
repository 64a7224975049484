"""The wheel holds what the tree holds, under one name."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tests.wheel import build_wheel

tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11's tomllib")

ROOT = Path(__file__).parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
OUTSIDE = {
    "probes": "ddpdoctor.probes",
    "reference_train": "ddpdoctor.reference_train",
    "docs/findings": "ddpdoctor.pages",
}
STDLIB = sys.stdlib_module_names


def folders_with_modules(top: str) -> set[str]:
    return {
        path.parent.relative_to(ROOT).as_posix()
        for path in (ROOT / top).rglob("*.py")
        if "__pycache__" not in path.parts
    }


def test_package_list_equals_tree() -> None:
    expected = {folder.replace("/", ".") for folder in folders_with_modules("ddpdoctor")} | {"ddpdoctor.pages"}
    for top in ("probes", "reference_train"):
        expected |= {f"ddpdoctor.{folder.replace('/', '.')}" for folder in folders_with_modules(top)}
    assert set(SETUPTOOLS["packages"]) == expected


def test_no_program_is_named_like_a_standard_module() -> None:
    programs = [*(ROOT / "probes").glob("*.py"), *(ROOT / "reference_train").rglob("*.py")]
    assert not [path.name for path in programs if path.stem in STDLIB and path.stem != "__init__"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


def test_the_wheels_only_top_level_name_is_ddpdoctor(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ddpdoctor"}


def test_the_wheel_holds_every_module_and_page(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    expected = {path.relative_to(ROOT).as_posix() for path in (ROOT / "ddpdoctor").rglob("*.py")}
    for folder, package in OUTSIDE.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in {".py", ".md", ".gz"}:
                expected.add(f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder).as_posix()}")
    assert expected - names == set()

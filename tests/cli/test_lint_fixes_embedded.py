"""`ddpdoctor lint --fix` of notebooks and of Markdown: the code is corrected, and every other byte stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor import cli
from ddpdoctor.source.notebooks import code_cells, file_and_cell, with_sources
from tests.training_programs import GOOD

SET_EPOCH = "        sampler.set_epoch(epoch)\n"
SICK = GOOD.replace(SET_EPOCH, "")
HEAD, _, REST = SICK.partition("\ndef ")
LOAD = "    %time ddp.module.load_state_dict(torch.load('a.pt'))\n"
REST = REST.replace("    best = 0.0\n", f"    best = 0.0\n{LOAD}")
CELLS: list[dict[str, Any]] = [
    {"source": ["# Größe\n", "text"], "metadata": {}, "cell_type": "markdown"},
    {"cell_type": "code", "execution_count": 7, "metadata": {"b": 1, "a": 2}, "source": "%%bash\nls\n", "outputs": []},
    {"cell_type": "code", "source": ["!pip install x\n", "%matplotlib inline\n", *HEAD.splitlines(keepends=True)]},
    {
        "outputs": [
            {"data": {"text/plain": ["sampler.set_epoch\n", "1.50e3"]}, "n": 1.50e3, "output_type": "display_data"}
        ],
        "cell_type": "code",
        "source": [
            *f"def {REST}".splitlines(keepends=True),
            "files = !ls  # größer\n",
            "%time main()",
        ],
    },
]
FORMS = {
    "as Jupyter writes it": lambda book: json.dumps(book, indent=1, ensure_ascii=False) + "\n",
    "on one line": lambda book: json.dumps(book, separators=(",", ":")),
    "with tabs, escapes and other line ends": lambda book: (
        "\ufeff" + json.dumps(book, indent="\t").replace("\n", "\r\n")
    ),
}


def lint(*arguments: object) -> None:
    cli.run(["lint", *map(str, arguments)])


@pytest.mark.parametrize("form", FORMS)
def test_cells_are_corrected_and_every_other_byte_of_the_notebook_stays(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.ipynb"
    before = FORMS[form]({"nbformat": 4, "cells": CELLS, "metadata": {"z": 1, "a": [1.0]}})
    file.write_bytes(before.encode())

    lint(file, "--fix", "--select", "DDP711,DDP751")

    after = file.read_bytes().decode()
    cells = json.loads(after.removeprefix("\ufeff"))["cells"]
    assert "".join(cells[2]["source"]).startswith("!pip install x\n%matplotlib inline\n")
    last = "".join(cells[3]["source"])
    assert "        loader.sampler.set_epoch(epoch)\n" in last
    assert LOAD.replace("'a.pt'", "'a.pt', map_location=\"cpu\"") in last
    assert last.endswith("files = !ls  # größer\n%time main()")
    gone = [line for line in before.splitlines() if line not in after.splitlines()]
    assert form == "on one line" or all("torch.load" in line for line in gone)
    for cell, now in zip(CELLS, cells, strict=True):
        assert {**cell, "source": 0} == {**now, "source": 0}
        assert isinstance(now["source"], type(cell["source"]))
    capfd.readouterr()
    lint(file, "--diff", "--select", "DDP711,DDP751")
    assert not capfd.readouterr().out


def test_a_notebook_of_format_3_is_read_and_corrected(tmp_path: Path) -> None:
    file = tmp_path / "old.ipynb"
    cells = [
        {
            "cell_type": "code",
            "collapsed": False,
            "input": SICK.splitlines(keepends=True),
            "language": "python",
            "outputs": [],
        }
    ]
    file.write_text(
        json.dumps({"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": cells, "metadata": {}}]})
    )
    lint(file, "--fix", "--select", "DDP711")
    (cell,) = json.loads(file.read_text())["worksheets"][0]["cells"]
    assert "        loader.sampler.set_epoch(epoch)\n" in cell["input"]
    assert "source" not in cell


def test_the_diff_of_a_notebook_is_shown_and_nothing_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"cells": CELLS}, indent=1, ensure_ascii=False)
    Path("train.ipynb").write_text(text)

    lint("train.ipynb", "--diff", "--select", "DDP711")

    changes = [line for line in capfd.readouterr().out.splitlines() if line.startswith(("+", "-"))]
    assert changes == ["--- a/train.ipynb", "+++ b/train.ipynb", '+    "        loader.sampler.set_epoch(epoch)\\n",']
    assert Path("train.ipynb").read_text() == text


def test_a_fix_of_a_line_that_only_ipython_understands_is_not_made(tmp_path: Path) -> None:
    """`files = !ls` lists in the shell's order: there is no call to put `sorted` around."""
    source = SICK.replace(
        "    best = 0.0\n", "    files = !ls *.bin\n    mine = Shards(files[rank::8])\n    best = 0.0\n"
    )
    file = tmp_path / "train.ipynb"
    file.write_text(json.dumps({"cells": [{"cell_type": "code", "source": source}]}))

    lint(file, "--fix", "--unsafe-fixes")

    assert "    files = !ls *.bin\n" in json.loads(file.read_text())["cells"][0]["source"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_blocks_of_markdown_are_corrected_and_the_text_around_them_stays(newline: str, tmp_path: Path) -> None:
    file = tmp_path / "guide.md"
    around = ["# Guide  \n\n```python\n", "```\n\n```\nset_epoch\n```\n\n```py\n", "```\nend"]
    sick = around[0] + SICK + around[1] + SICK + around[2]
    file.write_bytes(sick.replace("\n", newline).encode())

    lint(file, "--fix", "--select", "DDP711")

    right = GOOD.replace(SET_EPOCH, f"        loader.{SET_EPOCH.lstrip()}")
    expected = around[0] + right + around[1] + right + around[2]
    assert file.read_bytes().decode() == expected.replace("\n", newline)


def test_a_cell_is_named_as_findings_do() -> None:
    assert file_and_cell("a:cell 1/b.ipynb:cell 12") == ("a:cell 1/b.ipynb", 12)
    assert file_and_cell("a:cell 3.py") == ("a:cell 3.py", 0)


def test_lines_of_a_cell_that_stay_keep_their_escapes() -> None:
    text = r'{"cells": [ {"source": [ "\u0061 = 1\n",  "b = 2" ], "cell_type": "code"} ], "x": "\u00e9"}'
    (cell,) = code_cells(text)
    assert cell.source == "a = 1\nb = 2"
    assert with_sources(text, [cell], {1: "a = 1\nc = 'é'\nb = 2"}) == text.replace(
        r'  "b', r'  "c = ' + r"'\u00e9'\n" + '",  "b'
    )


@pytest.mark.parametrize(
    "text", ["", "[]", '{"cells": 1}', '{"cells": [1]}', '{"cells": [{"cell_type": "code"', '{"a" 1}']
)
def test_what_is_no_notebook_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        code_cells(text)

"""The reader of training code follows people's programs, and passes over what it cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training_code import TrainingCode
from ddpdoctor.source import parallel_reading
from ddpdoctor.source.parallel_reading import read_training_code
from ddpdoctor.source.training_code import Reading, python_files, read_files, read_texts
from tests.training_programs import GOOD, UNDER_A_TEST, source, training


def codes(**modules: str) -> list[str]:
    return [finding.code for finding in diagnose(source(**modules), select=("DDP7",)).findings]


@pytest.mark.parametrize(
    ("before", "test"),
    [
        ("rank = dist.get_rank()", "rank == 0"),
        ("first = int(os.environ['RANK']) == 0", "first"),
        ("r, w = dist.get_rank(), dist.get_world_size()", "not r"),
        ("rank = int(os.getenv('RANK', '0'))", "rank != 0"),
        ("rank = dist.get_rank() if dist.is_initialized() else 0", "rank == 0 and True"),
        ("state = {}; state['rank'] = dist.get_rank()", "state['rank'] == 0"),
        ("pass", "(me := dist.get_rank()) == 0"),
        ("pass", "os.environ['LOCAL_RANK'] == '0'"),
    ],
)
def test_a_test_of_the_rank_is_known_in_every_form(before: str, test: str) -> None:
    assert codes(train=UNDER_A_TEST.format(before=before, test=test)) == ["DDP730"]


@pytest.mark.parametrize(
    ("before", "test"),
    [
        ("rank = 0", "rank == 0"),
        ("rank = int(os.getenv('RANK', '-1'))", "rank != -1"),
        ("size = dist.get_world_size()", "size > 1"),
        ("rank = dist.get_rank(); rank = 3", "rank == 3"),
        ("pass", "'RANK' in os.environ"),
        ("rank = dist.get_rank()", "rank >= 0"),
    ],
)
def test_what_all_ranks_answer_alike_is_no_test_of_the_rank(before: str, test: str) -> None:
    assert codes(train=UNDER_A_TEST.format(before=before, test=test)) == []


HELPERS = """\
import torch.distributed as dist


def is_first():
    return dist.get_rank() == 0


def wait():
    dist.barrier()
"""
CALLS_HELPERS = """\
import torch.distributed as dist
{imports}


def main():
    dist.init_process_group("gloo")
    if {test}:
        {call}
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("imports", "test", "call"),
    [
        ("import helpers", "helpers.is_first()", "helpers.wait()"),
        ("from helpers import is_first, wait", "is_first()", "wait()"),
        ("from helpers import *", "is_first()", "wait()"),
        ("import helpers as h", "h.is_first()", "h.wait()"),
    ],
)
def test_helpers_are_followed_into_other_modules(imports: str, test: str, call: str) -> None:
    program = CALLS_HELPERS.format(imports=imports, test=test, call=call)
    assert codes(train=program, helpers=HELPERS) == ["DDP730"]


def test_a_rank_is_followed_through_a_class_and_its_methods() -> None:
    program = """\
import torch.distributed as dist


class Trainer:
    def __init__(self):
        self.rank = dist.get_rank()

    @property
    def first(self):
        return self.rank == 0

    def save(self):
        if self.first:
            self.wait()

    def wait(self):
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().save()
    dist.destroy_process_group()
"""
    (finding,) = diagnose(source(train=program), select=("DDP7",)).findings
    assert (finding.code, finding.where[0].line) == ("DDP730", 14)
    assert finding.details == ("because self.rank = dist.get_rank() (train.py:6)",)


def test_a_decorator_that_tests_the_rank_guards_its_function() -> None:
    program = """\
import functools
import torch.distributed as dist


def on_first(function):
    @functools.wraps(function)
    def inner(*args):
        if dist.get_rank() == 0:
            return function(*args)
    return inner


@on_first
def report():
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    report()
    dist.destroy_process_group()
"""
    assert codes(train=program) == ["DDP730"]


def test_code_without_a_process_group_is_left_alone() -> None:
    assert codes(train="import torch\n\nrank = 0\nif rank == 0:\n    torch.save({}, 'a.pt')\n") == []


@pytest.mark.parametrize("import_", ["import lightning", "import accelerate", "from ignite import engine"])
def test_a_framework_silences_what_it_does_itself(import_: str) -> None:
    sick = training(("        sampler.set_epoch(epoch)\n", ""), ("import os\n", f"import os\n{import_}\n"))
    assert not diagnose(sick, select=("DDP711",)).findings


def test_a_notebook_is_read_cell_by_cell_without_its_magics(tmp_path: Path) -> None:
    cells = [
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "!pip install torch\n", "import torch.distributed as dist"],
        },
        {"cell_type": "markdown", "source": "# text"},
        {
            "cell_type": "code",
            "source": "files = !ls\n%time dist.init_process_group('gloo')\nif dist.get_rank() == 0:\n    dist.barrier()",
        },
        {"cell_type": "code", "source": "this is no Python"},
    ]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells}))
    reading = read_training_code([tmp_path])
    assert reading.unreadable == ()
    (function,) = reading.code.modules[0].functions
    barrier = next(call for call in function.calls if call.does == "collective")
    assert (barrier.place.file, barrier.place.line) == (f"{tmp_path}/train.ipynb:cell 3", 4)


def test_python_blocks_of_markdown_keep_their_lines(tmp_path: Path) -> None:
    code = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    text = f"# How to\n\n```bash\npip install\n```\n\n```python\n{code}```\n"
    (tmp_path / "guide.md").write_text(text)
    (function,) = read_training_code([tmp_path]).code.modules[0].functions
    assert [call.place.line for call in function.calls if call.does == "init"] == [9]


def test_a_notebook_with_a_cell_that_nobody_writes_is_passed_over(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": "x = 1\n" * (1 << 18)}
    (tmp_path / "large.ipynb").write_text(
        json.dumps({"cells": [cell, {"cell_type": "code", "source": "import torch"}]})
    )
    assert read_training_code([tmp_path]).code.modules[0].functions == ()


def test_blocks_of_markdown_cost_as_much_as_they_are_long(tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text("```python\nx\n```\n" * 2001)
    reading = read_training_code([tmp_path])
    assert reading.unreadable == ((str(tmp_path / "guide.md"), "more than 2,000 blocks of Python"),)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"print 'old'\n", "Python 2 at line 1"),
        (b"def f(:\n    pass\n", "a syntax error at line 1"),
        (b"x = 1\n" * (1 << 18), "1.5 MiB: too large to be written by hand"),
        (b"x=[" + b"a," * 250_000 + b"]\n", "more than 400,000 words: too large to be written by hand"),
        (b"# coding: no-such-code\n", "its encoding is not known"),
        (b"\xff\xfe\x00", "its encoding is not known"),
        (b"x = 1\x00\n", "source code string cannot contain null bytes"),
        (b"x = " + b"(" * 5000 + b")" * 5000 + b"\n", "a syntax error at line 1"),
        (b"x = " + b"-" * 100_000 + b"1\n", "nested too deeply"),
        (b"x = 0x" + b"f" * 4000 + b"\n", "a number with thousands of digits"),
    ],
    ids=["python 2", "syntax", "large", "words", "coding", "utf-16", "null", "brackets", "nested", "digits"],
)
def test_what_cannot_be_read_is_named_and_the_rest_is_read(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_bytes(data)
    (tmp_path / "train.py").write_text(GOOD)
    reading = read_training_code([tmp_path])
    ((file, said),) = reading.unreadable
    assert (file, said) == (str(tmp_path / "bad.py"), reason)
    assert [module.file for module in reading.code.modules] == [str(tmp_path / "train.py")]


def test_a_package_is_read_once_with_the_modules_that_others_import_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import kit.parts.first` reads `kit/__init__.py`, which belongs to the same part of a long run."""
    package = tmp_path / "kit" / "parts"
    package.mkdir(parents=True)
    (tmp_path / "kit" / "__init__.py").write_text("from torch.distributed import init_process_group\n")
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("def start():\n    pass\n")
    (tmp_path / "train.py").write_text("import kit.parts.first\n\nkit.parts.first.start()\n")
    monkeypatch.setattr(parallel_reading, "FEW", 1)
    monkeypatch.setattr(parallel_reading, "MOST_BYTES", 1)
    read: list[list[Path]] = []

    def reading(files: list[Path], _judge: None) -> Reading:
        read.append(files)
        return read_files(files)

    monkeypatch.setattr(parallel_reading, "read_files", reading)
    monkeypatch.setattr(parallel_reading, "PROCESSES", 1 << 20)
    read_training_code([tmp_path])
    assert [sorted(file.name for file in files) for files in read] == [
        ["__init__.py", "__init__.py", "first.py", "train.py"]
    ]


def test_what_stands_around_a_block_is_found_once() -> None:
    """The calls of one block share their tests, loops and `with` blocks, up to the next early exit."""
    code = read_texts(
        {
            "train.py": "import torch\nimport torch.distributed as dist\n\ndist.init_process_group()\n"
            "for step in range(3):\n    with torch.no_grad():\n        if dist.get_rank() == 0:\n"
            "            dist.barrier()\n            dist.barrier()\n            if dist.get_rank() == 1:\n"
            "                break\n            dist.barrier()\n"
        }
    )
    first, second, third = (
        call for function in code.modules[0].functions for call in function.calls if call.name.endswith("barrier")
    )
    assert first.guards is second.guards
    assert first.loops is second.loops is third.loops
    assert first.contexts is second.contexts is third.contexts
    assert [guard.form for guard in first.guards] == ["if"]
    assert [guard.form for guard in third.guards] == ["if", "after"]


def test_deep_and_cyclic_code_is_read_without_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from b import g\nimport torch.distributed as dist\n\n\ndef f():\n    return g()\n\n\ndist.init_process_group()\n"
    )
    (tmp_path / "b.py").write_text(
        "from a import f\n\n\ndef g():\n    return f()\n\n\nx = " + " + ".join(["g()"] * 800) + "\n"
    )
    reading = read_training_code([tmp_path])
    assert reading.unreadable == ()
    assert len(reading.code.modules) == 2


def test_other_encodings_and_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes("# coding: latin-1\r\nname = 'Grüße'\r\n".encode("latin-1"))
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    assert read_training_code([tmp_path]).unreadable == ()


def test_many_files_are_read_by_two_processes_with_the_same_result(tmp_path: Path) -> None:
    for number in range(60):
        folder = tmp_path / f"job{number}"
        folder.mkdir()
        program = CALLS_HELPERS.format(imports="import helpers", test="helpers.is_first()", call="helpers.wait()")
        (folder / "train.py").write_text(program)
        (folder / "helpers.py").write_text(HELPERS)
    whole = read_training_code([tmp_path]).code
    alone = read_files(python_files([tmp_path])).code
    assert {module.file: module for module in whole.modules} == {module.file: module for module in alone.modules}
    assert len(whole.programs) == 60
    report = diagnose(Evidence(job=(whole,), launched=False), select=("DDP730",))
    assert len(report.findings) == 60


def test_a_large_tree_is_read_in_small_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When one of two processes has no part left, the other one is at its last: that is a small share of the whole."""
    for number in range(400):
        folder = tmp_path / f"job{number:03}"
        folder.mkdir()
        (folder / "train.py").write_text(GOOD * 5)
    read: list[int] = []

    def reading(files: list[Path], _judge: None) -> Reading:
        read.append(len(files))
        return Reading(TrainingCode(modules=()), ())

    monkeypatch.setattr(parallel_reading, "read_files", reading)
    monkeypatch.setattr(parallel_reading, "PROCESSES", 1 << 20)
    read_training_code([tmp_path])
    assert sum(read) == 400
    assert max(read) <= 400 / 10


def test_parts_of_a_large_tree_are_judged_like_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports over several lines keep files together; what trains nowhere is left as it is without them."""
    for number in range(40):
        folder = tmp_path / f"job{number}"
        folder.mkdir()
        program = CALLS_HELPERS.format(
            imports="from helpers import (  # those of all jobs\n    is_first,\n    wait,\n)",
            test="is_first()",
            call="wait()",
        )
        (folder / "train.py").write_text(program)
        (folder / "helpers.py").write_text(HELPERS)
        (folder / "plain.py").write_text("import os\n\nprint(os.name)  # ddpdoctor: ignore[DDP711] nothing is here\n")
    monkeypatch.setattr(parallel_reading, "MOST_BYTES", 1)
    parts = read_training_code([tmp_path]).code
    alone = read_files(python_files([tmp_path])).code
    assert {module.file: module for module in parts.modules} == {module.file: module for module in alone.modules}
    assert sorted(each.root for each in parts.programs) == sorted(each.root for each in alone.programs)


def test_a_notebook_is_read_with_the_modules_that_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts as well as whole: what the cells of a notebook give to a function counts beside what scripts give."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    program = CALLS_HELPERS.format(imports="import helpers", test="helpers.is_first()", call="helpers.wait()")
    (tmp_path / "train.py").write_text(program)
    cell = {"cell_type": "code", "source": ["import os\n", *program.splitlines(keepends=True)]}
    (tmp_path / "lines.ipynb").write_text(json.dumps({"cells": [cell]}, indent=1))
    (tmp_path / "text.ipynb").write_text(json.dumps({"cells": [{**cell, "source": "".join(cell["source"])}]}))
    monkeypatch.setattr(parallel_reading, "FEW", 1)
    monkeypatch.setattr(parallel_reading, "MOST_BYTES", 1)
    read: list[list[str]] = []

    def reading(files: list[Path], _judge: None) -> Reading:
        read.append(sorted(file.name for file in files))
        return read_files(files)

    monkeypatch.setattr(parallel_reading, "read_files", reading)
    monkeypatch.setattr(parallel_reading, "PROCESSES", 1 << 20)
    read_training_code([tmp_path])
    assert read == [["helpers.py", "lines.ipynb", "text.ipynb", "train.py"]]


def test_a_module_that_only_a_dotted_name_leads_to_is_read(tmp_path: Path) -> None:
    """A package that imports its modules by their names as text: `whole.part.wait()` is a function of the program."""
    package = tmp_path / "whole"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("import torch.distributed as dist\n\n\ndef wait():\n    dist.barrier()\n")
    (package / "other.py").write_text("import whole.part\n")
    (tmp_path / "train.py").write_text(
        "import torch.distributed as dist\nimport whole\n\ndist.init_process_group('gloo')\nwhole.part.wait()\n"
    )
    code = read_files([tmp_path / "train.py"]).code
    assert {Path(module.file).name for module in code.modules} >= {"train.py", "part.py"}


def test_folders_that_are_no_part_of_a_project_are_left_out(tmp_path: Path) -> None:
    """Those of builds, of installed packages, and environments of whatever name, unless they are named."""
    own = tmp_path / "my-env"
    for folder in (tmp_path / "_build", tmp_path / "buck-out", tmp_path / "__pypackages__", own, tmp_path / "src"):
        folder.mkdir()
        (folder / "train.py").write_text(GOOD)
    (own / "pyvenv.cfg").write_text("")
    assert python_files([tmp_path]) == [tmp_path / "src" / "train.py"]
    assert python_files([own]) == [own / "train.py"]


@pytest.mark.parametrize("last", ["return dist.all_reduce(x)", "return f0(x)"], ids=["chain", "ring"])
def test_a_thousand_functions_that_call_each_other_are_read(last: str) -> None:
    functions = "".join(f"def f{number}(x):\n    return f{number + 1}(x)\n\n" for number in range(1000))
    main = f"{functions}def f1000(x):\n    {last}\n"
    assert (
        codes(main=UNDER_A_TEST.format(before="loss = f0(1)", test="loss").replace("def main", f"{main}\n\ndef main"))
        == []
    )

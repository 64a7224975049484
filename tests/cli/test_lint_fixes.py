"""`ddpdoctor lint --fix`: what is corrected, what is left to people, and that nothing else of a file changes."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.model import Edit, Fix
from ddpdoctor.source.fixes.apply import fixed
from tests.training_programs import GOOD
from tests.waiting import PROGRAM_SECONDS

GUARDED = """\
    if local_rank == 0:
        datasets.CIFAR10("data", download=True)
    dist.barrier()
    train_data = datasets.CIFAR10("data", train=True)
"""
TRAIN = '    train_data = datasets.CIFAR10("data", train=True)\n'
FILES = "    files = glob.glob('*.bin')  # all\n    train_data = Shards(files[rank::8])\n"

# name: what is wrong in the good program, and the lines of the diff
SAFE = {
    "DDP711": (("        sampler.set_epoch(epoch)\n", ""), ["+        loader.sampler.set_epoch(epoch)"]),
    "DDP713": (
        ("batch_size=64, sampler=sampler", "batch_size=64, shuffle=True,\n        sampler=sampler"),
        [
            "-    loader = DataLoader(train_data, batch_size=64, shuffle=True,",
            "-        sampler=sampler)",
            "+    loader = DataLoader(train_data, batch_size=64, sampler=sampler)",
        ],
    ),
    "DDP714": (
        (TRAIN, FILES),
        ["-    files = glob.glob('*.bin')  # all", "+    files = sorted(glob.glob('*.bin'))  # all"],
    ),
    "DDP716": (
        (GUARDED, '    train_data = datasets.CIFAR10(\n        "data", download=True)\n'),
        [
            "+    if dist.get_rank() != 0:",
            "+        dist.barrier()",
            "+    if dist.get_rank() == 0:",
            "+        dist.barrier()",
        ],
    ),
    "DDP720": (
        ("set_device(local_rank)", "set_device(rank)"),
        ["-    torch.cuda.set_device(rank)", '+    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'],
    ),
    "DDP724": (
        ("    dist.destroy_process_group()\n", ""),
        ["+    if dist.is_initialized():", "+        dist.destroy_process_group()"],
    ),
    "DDP751": (
        ("    best = 0.0\n", "    ddp.module.load_state_dict(torch.load(('a.pt'),))  # ü\n    best = 0.0\n"),
        [
            "-    ddp.module.load_state_dict(torch.load(('a.pt'),))  # ü",
            "+    ddp.module.load_state_dict(torch.load(('a.pt'), map_location=\"cpu\",))  # ü",
        ],
    ),
}  # fmt: skip


def sick(code: str) -> str:
    old, new = SAFE[code][0]
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize("code", SAFE)
def test_the_diff_has_the_change_and_nothing_is_written(
    code: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.py"
    file.write_text(sick(code), encoding="utf-8")

    cli.run(["lint", str(file), "--diff", "--select", code])

    changed = [line for line in capfd.readouterr().out.splitlines()[2:] if line[:1] in {"+", "-"}]
    assert changed == SAFE[code][1]
    assert file.read_text(encoding="utf-8") == sick(code)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_git_applies_the_diff(
    newline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Tabs, form feeds, other spaces, line ends of Windows, a byte order mark and a last line without an end are kept."""
    monkeypatch.chdir(tmp_path)
    text = sick("DDP724").replace("\n", "\t# \u3000\xa0\f\n").replace("\t# \u3000\xa0\f\n", "\n", 3).rstrip("\n")
    file = tmp_path / "train.py"
    file.write_bytes(text.replace("\n", newline).encode("utf-8-sig"))

    cli.run(["lint", "train.py", "--diff", "--select", "DDP724"])

    diff = capfdbinary.readouterr().out
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn"], input=diff, cwd=tmp_path, check=True, timeout=PROGRAM_SECONDS
    )
    applied = file.read_bytes()
    file.write_bytes(text.replace("\n", newline).encode("utf-8-sig"))
    cli.run(["lint", "train.py", "--fix", "--select", "DDP724"])
    assert applied == file.read_bytes()


def test_a_diff_with_escape_sequences_is_not_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.py"
    file.write_text("# \x1b[31m\n" * 4 + sick("DDP724").replace("\n", " # \x1b[31m\n"), encoding="utf-8")

    cli.run(["lint", str(file), "--diff", "--select", "DDP724"])

    shown = capfd.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "holds control characters: its changes cannot be shown, --fix makes them" in shown.err


@pytest.mark.parametrize(("newline", "encoding"), [("\n", "utf-8"), ("\r\n", "utf-8-sig"), ("\n", "latin-1")])
def test_all_at_once_keeps_encoding_line_ends_and_permissions(newline: str, encoding: str, tmp_path: Path) -> None:
    """Several mistakes in one file are corrected; what is left parses, and a second run has nothing to do."""
    text = GOOD
    for (old, new), _ in (SAFE[code] for code in ("DDP711", "DDP713", "DDP716", "DDP720", "DDP724", "DDP751")):
        text = text.replace(old, new)
    head = "# -*- coding: latin-1 -*-\n" if encoding == "latin-1" else ""
    file = tmp_path / "train.py"
    file.write_bytes(f"{head}{text}".replace("\n", newline).encode(encoding))
    file.chmod(0o750)

    assert cli.run(["lint", str(file), "--fix", "--fail-on", "warn"]) == 0

    data = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o750
    assert data.decode(encoding).count("\n") == data.decode(encoding).count(newline)
    assert data.startswith(b"\xef\xbb\xbf") == (encoding == "utf-8-sig")
    assert "# ü" in data.decode(encoding)
    ast.parse(data)
    assert cli.run(["lint", str(file), "--fix"]) == 0
    assert file.read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_unsafe_changes_are_made_only_where_they_are_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.py"
    test = "def is_main_process():\n    return dist.get_rank() == 0\n\n\ndef main():\n"
    file.write_text(GOOD.replace("def main():\n", test).replace("if rank == 0:", "if is_main_process:"))
    before = file.read_text()

    assert cli.run(["lint", str(file), "--fix"]) == 1
    assert file.read_text() == before
    assert cli.run(["lint", str(file)]) == 1
    assert "note: 0 fixes with --fix, 1 fix with --unsafe-fixes" in capfd.readouterr().out

    assert cli.run(["lint", str(file), "--fix", "--unsafe-fixes"]) == 0
    assert "        if is_main_process():\n" in file.read_text()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "python3 -u -m torch.distributed.launch --nproc_per_node=4 --use_env \\\n    train.py\n",
            "torchrun --nproc_per_node=4 \\\n    train.py\n",
        ),
        ("python -m torch.distributed.launch --nproc_per_node=4 train.py\n", None),
    ],
    ids=["use_env", "an argument that torchrun does not pass"],
)
def test_the_old_launcher_becomes_torchrun_where_the_program_reads_the_environment(
    script: str, expected: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "job.sh"
    file.write_text(script)
    cli.run(["lint", str(file), "--fix"])
    assert file.read_text() == (expected or script)


def test_what_a_comment_silences_is_not_corrected(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(sick("DDP720").replace("set_device(rank)", "set_device(rank)  # ddpdoctor: ignore[DDP720]"))
    before = file.read_text()
    assert cli.run(["lint", str(file), "--fix"]) == 0
    assert file.read_text() == before


def test_without_libcst_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(sick("DDP720"))
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert cli.run(["lint", str(tmp_path), "--fix"]) == 2
    assert "--fix and --diff need libcst: `pip install 'ddpdoctor[fix]'`" in capfd.readouterr().err


def test_set_epoch_is_called_on_the_loader_and_not_on_what_goes_over_it(tmp_path: Path) -> None:
    """Neither an iterator that is made of the loader has a sampler, nor is a name of another function known here."""
    file = tmp_path / "train.py"
    loop = "        for images, labels in loader:\n            optimizer"
    over = (
        "        batches = enumerate(loader)\n        for _, (images, labels) in shown(batches):\n            optimizer"
    )
    helper = "def shown(things):\n    for thing in things:\n        yield thing\n\n\ndef main():\n"
    file.write_text(sick("DDP711").replace(loop, over).replace("def main():\n", helper))

    cli.run(["lint", str(file), "--fix", "--select", "DDP711"])

    added = [line.strip() for line in file.read_text().splitlines() if "set_epoch" in line]
    assert set(added) <= {"loader.sampler.set_epoch(epoch)"}


def test_a_device_that_has_another_value_without_a_launcher_is_left_to_people(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    chosen = (
        '    device = int(os.environ["RANK"]) if "RANK" in os.environ else "cuda"\n    torch.cuda.set_device(device)\n'
    )
    file.write_text(GOOD.replace("    torch.cuda.set_device(local_rank)\n", chosen))
    before = file.read_text()

    cli.run(["lint", str(file), "--fix", "--select", "DDP720"])

    assert file.read_text() == before


def test_a_device_is_corrected_wherever_the_rank_is_taken_for_it(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    before = GOOD.replace("set_device(local_rank)", "set_device(rank)").replace(
        "device_ids=[local_rank]", "device_ids=[rank]"
    )
    file.write_text(before)

    cli.run(["lint", str(file), "--fix", "--select", "DDP720"])

    local = 'int(os.environ["LOCAL_RANK"])'
    assert file.read_text() == before.replace("set_device(rank)", f"set_device({local})").replace(
        "[rank]", f"[{local}]"
    )


def test_all_places_of_a_rank_are_one_fix_that_is_announced_and_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.py"
    wrapped = "DDP(Net(rank).to(rank), device_ids=[rank], output_device=rank)"
    before = GOOD.replace("set_device(local_rank)", f"set_device(rank)\n    other = {wrapped}")
    file.write_text(before)
    local = 'int(os.environ["LOCAL_RANK"])'
    after = f"DDP(Net(rank).to({local}), device_ids=[{local}], output_device={local})"

    cli.run(["lint", str(file), "--select", "DDP720"])
    assert "note: 1 fix with --fix\n" in capfd.readouterr().out
    cli.run(["lint", str(file), "--diff", "--select", "DDP720"])
    assert after in capfd.readouterr().out

    cli.run(["lint", str(file), "--fix", "--select", "DDP720"])
    assert "note: 1 fix made in 1 file\n" in capfd.readouterr().out
    assert file.read_text() == before.replace("set_device(rank)", f"set_device({local})").replace(wrapped, after)


def test_what_a_script_prints_stays(tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    old, shown = "python -m torch.distributed.launch", "echo 'python -m torch.distributed.launch a.py'"
    file.write_text(f"{old} --use_env a.py && {shown}\n")

    cli.run(["lint", str(file), "--fix"])

    assert file.read_text() == f"torchrun a.py && {shown}\n"


def test_groups_of_processes_that_are_spawned_are_not_ended_where_the_program_ends(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    text = sick("DDP724").replace("def main():\n", "def main(index):\n")
    file.write_text(text.replace("    main()\n", "    torch.multiprocessing.spawn(main, nprocs=2)\n"))
    before = file.read_text()
    assert "spawn(main" in before

    cli.run(["lint", str(file), "--fix", "--select", "DDP724"])

    assert file.read_text() == before


CALL = "DataLoader(train_data, batch_size=64, sampler=sampler)"
ARGUMENTS = {
    "DataLoader(shuffle=True,  # mix\n        dataset=train_data, batch_size=64, sampler=sampler)":
        "DataLoader(  # mix\n        dataset=train_data, batch_size=64, sampler=sampler)",
    "DataLoader(train_data, 64,\n        sampler=sampler,  # ours\n        shuffle=True,  # mix\n    )":
        "DataLoader(train_data, 64,\n        sampler=sampler,  # ours\n          # mix\n    )",
    "DataLoader(train_data, 64,\n        sampler=sampler,  # ours\n        shuffle=True\n    )":
        "DataLoader(train_data, 64,\n        sampler=sampler,  # ours\n        \n    )",
    "DataLoader(train_data, 64, shuffle=True  # mix, too\n        ,\n        sampler=sampler,\n    )":
        "DataLoader(train_data, 64,   # mix, too\n        sampler=sampler,\n    )",
    "DataLoader(train_data, 64, shuffle=(True)  # mix\n        , sampler=sampler)":
        "DataLoader(train_data, 64,   # mix\n        sampler=sampler)",
    "DataLoader(train_data, 64,  # ours\n        sampler=sampler, shuffle=True  # mix\n        # all\n        ,  # it\n    )":
        "DataLoader(train_data, 64,  # ours\n        sampler=sampler  # mix\n        # all\n        ,  # it\n    )",
}  # fmt: skip


@pytest.mark.parametrize("call", ARGUMENTS)
def test_comments_beside_an_argument_stay(call: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(GOOD.replace(CALL, call))
    cli.run(["lint", str(file), "--fix", "--select", "DDP713"])
    assert file.read_text() == GOOD.replace(CALL, ARGUMENTS[call])


def test_a_fix_after_which_the_file_does_not_parse_costs_no_other_one() -> None:
    """No finding asks for an argument `, `; it stands for all that nobody thought of."""
    text = "a(x, shuffle=True)\nb(x)\nc(x, shuffle=True)\n"
    spoils = Fix(edit=Edit.ADD_ARGUMENT, file="train.py", line=2, column=1, new=", ")
    first, last = (
        Fix(edit=Edit.REMOVE_ARGUMENT, file="train.py", line=line, column=1, old="shuffle") for line in (1, 3)
    )
    assert fixed(text, [first, spoils, last]) == ("a(x)\nb(x)\nc(x)\n", [first, last])
    assert fixed(text, [spoils]) == (text, [])
    needs_os = Fix(edit=Edit.REPLACE_ARGUMENT, file="train.py", line=3, column=1, old="x", new="os.x")
    assert fixed(text, [spoils, needs_os]) == (
        "import os\na(x, shuffle=True)\nb(x)\nc(os.x, shuffle=True)\n",
        [needs_os],
    )


def test_sorted_stands_around_the_call_that_lists(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    listed = FILES.replace("glob.glob('*.bin')", "list(pathlib.Path('d').iterdir())")
    file.write_text(GOOD.replace(TRAIN, listed))
    cli.run(["lint", str(file), "--fix", "--select", "DDP714"])
    assert "    files = list(sorted(pathlib.Path('d').iterdir()))  # all\n" in file.read_text()


MORE = ", datasets.MNIST('m', download=True)\n"
ONE = '    train_data = datasets.CIFAR10("data", download=True)\n'
CAN = [
    ("DDP716", GUARDED, ONE, 1),
    ("DDP716", GUARDED, f"    x = 1; {ONE.strip()}  # and more\n", 1),
    ("DDP716", GUARDED, f"    if True: {ONE.strip()}\n", 0),
    ("DDP716", GUARDED, f"    with torch.no_grad(): {ONE.strip()}; x = 1\n", 0),
    ("DDP716", GUARDED, ONE.replace("train_data =", "train_data, more =").replace("\n", MORE), 2),
    ("DDP711", "        sampler.set_epoch(epoch)\n", "", 1),
    ("DDP713", CALL, "DataLoader(train_data, 64, shuffle=True, sampler=sampler)", 1),
    ("DDP713", CALL, "DataLoader(train_data, 64, True, sampler)", 0),
    ("DDP713", CALL, "DataLoader(train_data, 64, shuffle=True  # mix\n        ,\n        sampler=sampler)", 1),
    ("DDP714", TRAIN, FILES, 1),
    ("DDP714", TRAIN, FILES.replace(")  # all", ") + glob.glob('*.tar')"), 0),
    ("DDP724", "    dist.destroy_process_group()\n", "", 1),
]  # fmt: skip


@pytest.mark.parametrize("suffix", [".py", ".ipynb", ".md"])
@pytest.mark.parametrize(("code", "old", "new", "count"), CAN)
def test_as_many_fixes_are_announced_as_are_made(
    code: str, old: str, new: str, count: int, suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert old in GOOD
    file = tmp_path / f"train{suffix}"
    text = GOOD.replace(old, new)
    cells = json.dumps({"cells": [{"cell_type": "code", "source": text.splitlines(keepends=True)}]})
    file.write_text({".py": text, ".ipynb": cells, ".md": f"```python\n{text}```\n"}[suffix])
    wanted = f"{count} {'fix' if count == 1 else 'fixes'}"

    cli.run(["lint", str(file), "--select", code])
    shown = capfd.readouterr().out
    assert code in shown
    assert f"note: {wanted} with --fix\n" in shown if count else " with --fix" not in shown

    cli.run(["lint", str(file), "--fix", "--select", code])
    shown = capfd.readouterr().out
    assert f"note: {wanted} made in 1 file\n" in shown if count else "made in" not in shown


def test_where_a_file_may_not_be_written_that_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, other, link = tmp_path / "train.py", tmp_path / "other.py", tmp_path / "link.py"
    file.write_text(sick("DDP720"))
    file.chmod(0o444)
    other.write_text(sick("DDP720"))
    link.symlink_to(other)
    assert cli.run(["lint", str(file), str(link), "--fix"]) == 1
    shown = capfd.readouterr().out
    assert f"note: {file} is read-only: its fixes are not made\n" in shown
    assert "note: 1 fix made in 1 file\n" in shown
    assert file.read_text() == sick("DDP720")
    assert link.is_symlink()
    assert 'set_device(int(os.environ["LOCAL_RANK"]))' in other.read_text()

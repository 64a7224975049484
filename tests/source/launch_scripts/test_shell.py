"""Shell as its parser reads it: which command runs with which words, and which shell replaces a variable."""

from __future__ import annotations

import pytest

from ddpdoctor.source.launch_scripts.manifests import NoManifest, read_manifests
from ddpdoctor.source.launch_scripts.shell import MOST_COMMANDS, read_script
from ddpdoctor.source.launch_scripts.shell_syntax import ShellUnreadable


def commands(text: str) -> list[tuple[int, str]]:
    """The line and the words of each command; those inside srun after its own words and a colon."""
    found = read_script("job.sh", text).commands
    return [(each.line, f"{' '.join(each.within)}: " * bool(each.within) + " ".join(each.words)) for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("N=4\ntorchrun --nnodes $N ${N} '$N' \"a$N\" \\\n  b\n", [(2, "torchrun --nnodes 4 4 $N a4 b")]),
        ("L='torchrun --nnodes 2'\n$L train.py $OTHER\n", [(2, "torchrun --nnodes 2 train.py $OTHER")]),
        ('a=(torchrun --nnodes 2)\n"${a[@]}" "x y"\n', [(2, "torchrun --nnodes 2 x y")]),
        ('run() {\n  torchrun "$@"\n}\nrun a b\n', [(2, "torchrun a b")]),
        ("A=$(hostname -s | head -n 1)\nx $A\n", [(2, "x $(hostname -s | head -n 1)")]),
        ("if c; then A=1; fi\nx $A\n", [(1, "c"), (2, "x $A")]),
        ('eval "$X torchrun"\npython $(which torchrun) a\n', [(1, "$X torchrun"), (2, "python torchrun a")]),
        ("cat <<EOF\ntorchrun\nEOF\necho torchrun\n", []),
    ],
)  # fmt: skip
def test_what_the_script_determines_is_replaced(text: str, expected: list[tuple[int, str]]) -> None:
    assert commands(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("srun t $SLURM_NODEID", "srun t 0"),
        ("srun bash -c 't $SLURM_NODEID'", "srun: t $SLURM_NODEID"),
        ('srun bash -c "t $SLURM_NODEID \\$SLURM_NODEID"', "srun: t 0 $SLURM_NODEID"),
        ("srun -N 2 bash <<'EOF'\nt $SLURM_NODEID\nEOF\n", "srun -N 2: t $SLURM_NODEID"),
        ("srun bash <<EOF\nt $SLURM_NODEID\nEOF\n", "srun: t 0"),
        ('srun bash -c "t $(hostname) $X"', "srun: t «hostname» «X»"),
        ("f() { t $SLURM_NODEID; }\nexport -f f\nsrun bash -c f", "srun: t $SLURM_NODEID"),
    ],
)  # fmt: skip
def test_a_variable_is_replaced_by_the_shell_that_sees_it_first(text: str, expected: str) -> None:
    assert [words for _, words in commands(f"#SBATCH -N 2\n{text}\n")] == [expected]


def test_conditions_and_prefixes_are_kept() -> None:
    script = read_script("job.sh", '[ -n "$D" ] && export A=1\nB=2 srun --export=ALL,C=3 x\ny || z\n')
    assert [(each.name, each.value, each.conditional) for each in script.variables] == [
        ("A", "1", True),
        ("B", "2", False),
        ("C", "3", False),
    ]
    assert [(each.words[0], each.conditional) for each in script.commands] == [
        ("srun", False),
        ("y", False),
        ("z", True),
    ]
    assert [each.name for each in script.commands[0].variables] == ["B", "C"]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000,
        "if true; then " * 5_000,
        "A=xxxx\n" + 'A="$A$A"\n' * 60 + "torchrun $A\n",
        "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}\n" for n in range(40)) + "f40() { torchrun; }\nf0\n",
        'X="a b c"\n' + 'X="$X $X"\n' * 20 + 'bash -c "$X"\n' * 200,
        "f() { f; bash -c f; }\nf\n",
    ],
    ids=["nesting", "open branches", "a doubling value", "doubling calls", "texts", "recursion"],
)  # fmt: skip
def test_a_hostile_script_has_bounds(text: str) -> None:
    assert len(read_script("job.sh", text).commands) <= MOST_COMMANDS


def test_what_the_parser_is_slow_over_is_refused() -> None:
    with pytest.raises(ShellUnreadable, match="more than 1000 times"):
        read_script("job.sh", "a|" * 5000)


@pytest.mark.parametrize("text", ["[" * 5000, "a: b: c", "a: [1"])
def test_what_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(NoManifest):
        read_manifests("job.yaml", text)


def test_aliases_are_not_expanded() -> None:
    doubling = "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 60))
    text = f"b0: &b0 [x]\n{doubling}kind: Job\nspec: {{template: {{spec: {{containers: *b59}}}}}}\n"
    assert len(read_manifests("job.yaml", text)) == 1

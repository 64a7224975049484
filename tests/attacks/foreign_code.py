"""Files that want their own code executed."""

from __future__ import annotations

from tests.attacks.attack import CODE, Attack
from tests.attacks.inputs import (
    COMPARE,
    LINT,
    LOG,
    RAISED,
    RANK_1_RAISED,
    RUNS,
    SHELL,
    Runs,
    both,
    checkpoint,
    data,
    dcp,
    notebook,
    text,
)
from tests.fuzz.__main__ import MARK

GETATTR = (
    b"\x80\x02cbuiltins\ngetattr\ncos\nsystem\nX\x08\x00\x00\x00__call__\x86R" + b"X\x0b\x00\x00\x00mkdir PWNED\x85R."
)


INSTANCE = b"\x80\x02(X\x0b\x00\x00\x00mkdir PWNEDios\nsystem\n."


EXTENSION = b"\x80\x02\x82\x01."


PERSISTENT = b"\x80\x02Pmkdir PWNED\n."


STACK_GLOBAL = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0bmkdir PWNED\x85R."


ATTACKS: dict[str, Attack] = {
    **{
        f"dump with {name}": Attack(
            kind=CODE,
            law="nothing is executed",
            arguments=("diagnose", "rank_0"),
            make=data(rank_0=content),
            codes=(3,),
        )
        for name, content in (
            ("os.mkdir", RUNS),
            ("getattr and os.system", GETATTR),
            ("an INST opcode", INSTANCE),
            ("a registered extension", EXTENSION),
            ("a persistent id", PERSISTENT),
            ("STACK_GLOBAL", STACK_GLOBAL),
        )
    },
    "checkpoint with os.mkdir": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=COMPARE,
        make=both(checkpoint({"x": Runs()}), checkpoint({"x": Runs()}, "b.pt")),
        codes=(2, 3),
        shows="posix.mkdir",
    ),
    "metadata with os.mkdir": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=("verify-sync", "a", "b"),
        make=dcp(RUNS),
        codes=(2, 3),
        shows="posix.mkdir",
    ),
    "YAML tag that calls": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LINT,
        make=text(job__yaml=f"kind: Job\nspec: !!python/object/apply:os.mkdir [{MARK}]\n"),
    ),
    "shell substitution": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LINT,
        make=text(
            job__sh=f"{SHELL}X=$(mkdir {MARK})\n`mkdir {MARK}`\ntorchrun --nproc-per-node ${{X:-$(mkdir {MARK})}} t.py\n"
        ),
    ),
    "notebook magic": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LINT,
        make=text(t__ipynb=notebook(f"!mkdir {MARK}", f"%%bash\nmkdir {MARK}", f"import os; os.mkdir('{MARK}')")),
    ),
    "project file with a command": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=("watch", "--", "false"),
        make=text(pyproject__toml=f"[tool.ddpdoctor.watch]\non-verdict = 'mkdir {MARK}'\n"),
        codes=(2,),
        shows="project file cannot",
    ),
    "project file that writes": Attack(
        kind=CODE,
        law="no file is written",
        arguments=LOG,
        make=both(data(job__log=RAISED), text(pyproject__toml=f"[tool.ddpdoctor.diagnose]\noutput = '{MARK}'\n")),
        codes=(2,),
    ),
    "modules in the working directory": Attack(
        kind=CODE,
        law="nothing is executed",
        arguments=LOG,
        make=both(
            data(job__log=RAISED),
            text(
                **{
                    f"{name}__py": f"import os; os.mkdir({MARK!r})"
                    for name in ("json", "torch", "ddpdoctor", "sitecustomize", "yaml")
                }
            ),
        ),
        codes=(1,),
        shows=RANK_1_RAISED,
        alone=True,
    ),
}

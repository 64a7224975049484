"""Files that cannot be read, alone and beside good ones."""

# ruff: noqa: E501 - an input is a line
from __future__ import annotations

import random

from tests.attacks.attack import CRASH, PARTIAL, Attack
from tests.attacks.inputs import (
    DUMPS,
    GLOO,
    LINT,
    LOG,
    RAISED,
    RANK_1_RAISED,
    RUNS,
    SHELL,
    TRAIN,
    both,
    data,
    dumps,
    fifo,
    link,
    notebook,
    text,
)

DEEP = 100_000


ATTACKS: dict[str, Attack] = {
    "hostile dump beside good ones": Attack(
        kind=PARTIAL, law="the rest is judged", arguments=DUMPS, make=both(dumps, data(rank_7=RUNS)), shows="rank_7"
    ),
    "damaged dump beside good ones": Attack(
        kind=PARTIAL,
        law="the rest is judged",
        arguments=DUMPS,
        make=both(dumps, lambda folder: (folder / "rank_7").write_bytes((GLOO / "rank_0").read_bytes()[:300]) and None),
        shows="rank_7",
    ),
    "pipe beside good dumps": Attack(
        kind=PARTIAL, law="the rest is judged", arguments=DUMPS, make=both(dumps, fifo("rank_7"))
    ),
    "garbage beside a good log": Attack(
        kind=PARTIAL,
        law="the rest is judged",
        arguments=DUMPS,
        make=both(data(job__log=RAISED, a__log=random.Random(1).randbytes(5000), b__log=b"\xff\xfe\x00")),
        codes=(1,),
        shows=RANK_1_RAISED,
    ),
    "a program that does not parse": Attack(
        kind=PARTIAL,
        law="the rest is judged",
        arguments=LINT,
        make=text(a__py="def (", b__py=TRAIN + "if dist.get_rank() == 0:\n    dist.barrier()\n"),
        codes=(1,),
        shows="DDP730",
    ),
    "UTF-16 everywhere": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=data(
            t__py=TRAIN.encode("utf-16"),
            job__sh=SHELL.encode("utf-16"),
            job__yaml="kind: Job".encode("utf-16"),
            t__ipynb=notebook("x").encode("utf-16"),
            pyproject__toml="[tool.ddpdoctor]".encode("utf-16"),
        ),
    ),
    "surrogates in a notebook": Attack(
        kind=CRASH, law="no crash", arguments=LINT, make=text(t__ipynb=notebook("x = '\udc80'\n" + TRAIN))
    ),
    "a notebook of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            a__ipynb="[]",
            b__ipynb='{"cells": 5}',
            c__ipynb='{"cells": [5, {"cell_type": [], "source": {}}, {"cell_type": "code", "source": [1, null]}]}',
        ),
    ),
    "a manifest of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            a__yaml="kind: [1]\nspec: 5\n",
            b__yaml="kind: Job\nspec: {template: {spec: {containers: 5}}}\n",
            c__yaml="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: [1]}\n",
            d__yaml="? [a, b]\n: 1\n",
            e__yaml="kind: Job\nspec: {template: {spec: {containers: [{env: [5], args: {a: b}, command: 5}]}}}\n",
        ),
    ),
    "a manifest 5,000 deep": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            a__yaml="kind: Job\nspec: " + "[" * 5000 + "]" * 5000 + "\n",
            b__yaml="kind: Job\n" + "".join(" " * n + "a:\n" for n in range(600)),
        ),
    ),
    "an expression 5,000 deep": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(
            t__py=TRAIN + "x = " + "-" * 5000 + "1\n",
            u__py=TRAIN + "x = " + "(" * 90 + "1" + ")" * 90 + "\n",
            v__py=TRAIN + "x = a" + ".b" * 3000 + "\n",
            w__py=TRAIN + "x = " + "1+" * 3000 + "1\n",
        ),
    ),
    "a project file of odd types": Attack(
        kind=CRASH, law="no crash", arguments=LINT, make=text(t__py=TRAIN, pyproject__toml="tool = 5\n")
    ),
    "a project table of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml="[tool.ddpdoctor]\nlint = 5\n"),
        codes=(2,),
    ),
    "a list for a project table": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml="[[tool.ddpdoctor.lint]]\nignore = []\n"),
        codes=(2,),
    ),
    "a project file 5,000 deep": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml="[tool.ddpdoctor.lint]\nignore = " + "[" * 5000 + "]" * 5000 + "\n"),
        codes=(2,),
    ),
    "a value of another type in a project file": Attack(
        kind=CRASH,
        law="no crash",
        arguments=LOG,
        make=both(
            data(job__log=RAISED),
            text(pyproject__toml="[tool.ddpdoctor.diagnose]\nselect = [[1], {a = 2}]\nverbose = [1]\n"),
        ),
        codes=(2,),
    ),
    "a baseline of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=text(t__py=TRAIN, b__json='{"findings": {"x": 5}, "version": []}'),
        codes=(2,),
    ),
    "a deep baseline": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=text(t__py=TRAIN, b__json="[" * DEEP),
        codes=(2,),
    ),
    "a comparison of odd types": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("allreduce-bench", "--compare", "b.json", "--nproc", "1"),
        make=text(b__json='{"schema": [], "ranks": 5}'),
        codes=(2,),
    ),
    "a directory in the place of each file": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=lambda folder: (
            [(folder / name).mkdir() for name in ("b.json", "t.py", "job.sh", "job.yaml", "pyproject.toml")] and None
        ),
        codes=(2,),
    ),
    "a directory in the place of each dump": Attack(
        kind=CRASH,
        law="no crash",
        arguments=DUMPS,
        make=both(
            lambda folder: [(folder / name).mkdir() for name in ("rank_0", "job.json", "x.log")] and None,
            data(a__log=RAISED),
        ),
        codes=(1,),
    ),
    "a report over its own input": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("diagnose", "job.log", "--output", "job.log"),
        make=data(job__log=RAISED),
        codes=(2,),
        shows="would replace job.log",
        untouched=("job.log",),
    ),
    "a report over its own input, by a link": Attack(
        kind=CRASH,
        law="the input stays",
        arguments=("diagnose", "job.log", "--output", "report.txt"),
        make=both(data(job__log=RAISED), link("report.txt", "job.log")),
        codes=(2,),
        shows="would replace job.log",
        untouched=("job.log",),
    ),
    "a report in the place of a directory": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("diagnose", "job.log", "--output", "."),
        make=data(job__log=RAISED),
        codes=(2,),
    ),
    "a number for a flag in a project file": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("diagnose", "job.log"),
        make=both(data(job__log=RAISED), text(pyproject__toml="[tool.ddpdoctor.diagnose]\nverbose = 1\n")),
        codes=(1,),
    ),
    "an infinite count in a baseline": Attack(
        kind=CRASH,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=text(
            t__py=TRAIN,
            b__json='{"schema": "ddpdoctor.lint-baseline/1", "findings": [{"code": "x", "file": "x", "text": "x", "count": 1e999}]}',
        ),
        codes=(2,),
    ),
}

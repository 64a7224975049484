"""Secrets that must not reach a case or a report."""

# ruff: noqa: E501 - an input is a line
from __future__ import annotations

from tests.attacks.attack import SECRETS, Attack
from tests.attacks.inputs import RAISED, SHELL, data, text
from tests.secret_shapes import SHAPES

LEAKS = tuple(secret for _, secret in SHAPES)


ATTACKS: dict[str, Attack] = {
    "secrets in a log": Attack(
        kind=SECRETS,
        law="no secret is written",
        arguments=("diagnose", "job.log", "--case", "case.json", "--output", "report.html", "--format", "html"),
        make=text(
            job__log="[rank1]: Traceback (most recent call last):\n"
            + "".join(f"[rank1]: ValueError: {shape}\n" for shape, _ in SHAPES)
        ),
        never=LEAKS,
        leaves=("case.json", "report.html"),
    ),
    "secrets in a launch script": Attack(
        kind=SECRETS,
        law="no secret is written",
        arguments=("lint", "job.sh", "--case", "case.json", "--output", "report.json", "--format", "json"),
        make=text(
            job__sh=SHELL
            + "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\nexport MASTER_ADDR=localhost\nsrun --nodes=2 torchrun --nnodes 2 --wandb-api-key 0123456789abcdef0123 t.py\n"
        ),
        never=("hf_abcdefghijklmnop", "0123456789abcdef0123"),
        leaves=("case.json", "report.json"),
    ),
    "a case that others could read": Attack(
        kind=SECRETS,
        law="mode 0600",
        arguments=("diagnose", "job.log", "--case", "case.json"),
        make=data(job__log=RAISED),
        codes=(1,),
        leaves=("case.json",),
    ),
}

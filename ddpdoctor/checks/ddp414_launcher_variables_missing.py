"""Some of the variables that `init_process_group` reads are set, and others are not."""

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP414",
    name="launcher-variables-missing",
    summary="RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set in part",
    severity=Severity.FAIL,
    shown_by="the message names the variable or argument; the program was started without torchrun, or for "
    "another launcher",
    remedy="start the job with `torchrun --nproc-per-node N SCRIPT`, which sets all four; `unset RANK WORLD_SIZE` to run alone",
    explains=("DDP318", "DDP401", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"environment variable \w+ expected, but not set",
        ),
        ErrorPattern(
            regex=r"KeyError: '(?:RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'",
            frames=r"(?:\bos\.py|<frozen os>):__getitem__",  # of os.environ, and not of another dict
            without_stack=False,
        ),
        ErrorPattern(
            regex=r"unrecognized arguments: .{0,200}--local[-_]rank|arguments are required: .{0,200}--local[-_]rank",
        ),
    ),
)

_EXPECTED = re.compile(r"environment variable (?P<name>\w+) expected, but not set")
_READ = re.compile(r"KeyError: '(?P<name>\w+)'")
_OPTION = re.compile(r"--local[-_]rank")
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
OTHERS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")  # a script then takes what is missing from these


def check(environment: PerRank[Environment] | None, failures: Failures | None) -> Iterator[Finding]:
    """One finding for each set of missing names, from the environment or from what a rank died of."""
    if environment is None and failures is None:
        raise SkipCheck("no environment variables and no exit status of any rank")
    found = [*_by_environment(environment)] if environment is not None else []
    yield from found or (_by_words(failures) if failures is not None else ())


def _by_words(failures: Failures) -> Iterator[Finding]:
    found = failures.of("DDP414")
    if not found:
        return
    words, where = found[0].text, [where for failure in found[:1] for where in failure.where()]
    if variable := _EXPECTED.search(words) or _READ.search(words):
        needs = "the script reads" if variable.re is _READ else "init_process_group needs"
        yield RULE.finding(
            f"{variable['name']} was not set on {who(found)}, and {needs} it",
            ranks=unique_ranks(found),
            where=where,
            missing=[variable["name"]],
        )
    else:
        option = _OPTION.search(words)
        required = "are required" in words
        yield RULE.finding(
            f"the script{f' of {who(found)}' if unique_ranks(found) else ''} "
            + ("requires" if required else "does not accept")
            + f" {option[0] if option is not None else '--local-rank'}, which the launcher "
            + ("does not pass" if required else "passes"),
            ranks=unique_ranks(found),
            where=where,
            remedy="start it with `torchrun`, and read the local rank from the environment: int(os.environ['LOCAL_RANK'])",
        )


def _by_environment(environment: PerRank[Environment]) -> Iterator[Finding]:
    """One finding for each set of missing names. MASTER_ADDR and MASTER_PORT alone are no job yet."""
    missing: dict[tuple[str, ...], list[int]] = {}
    for entry in environment:
        have = entry.value.variables
        if ("RANK" in have or "WORLD_SIZE" in have) and not any(name in have for name in OTHERS):
            lacking = tuple(name for name in NEEDED if name not in have)
            if lacking:
                missing.setdefault(lacking, []).append(entry.rank)
    for lacking, ranks in missing.items():
        who = f" on {group_ranks(ranks)}" if environment.launched else ""
        present = [name for name in NEEDED if name not in lacking]
        yield RULE.finding(
            f"{', '.join(present)} {'is' if len(present) == 1 else 'are'} set{who}, but not {', '.join(lacking)}",
            ranks=ranks if environment.launched else (),
            missing=list(lacking),
        )

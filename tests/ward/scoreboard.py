"""One line a sick job: what people are told today, what torchfrtrace makes of the same job, and what ddpdoctor says."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.launch import guarded_process
from ddpdoctor.launch.guarded_process import ProgramEnd
from tests.ward.cases import Case
from tests.ward.jobs import Recording, Watched, plain, torchrun, watch
from tests.ward.unprepared import inspected

STILL_BEFORE_HANG_SECONDS = 10.0
STILL_SECONDS = 20.0  # for how long a hanging job is left alone; its own timeout would come after 30 minutes
MATCHERS = {
    r"typically caused by a remote worker": "connection closed by peer",
    r"op\.preamble\.length": "SIGABRT, received data size does not match",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sick job, as the three see it. `wrongs` is empty where ddpdoctor is right."""

    case: Case
    style: str
    culprit: int
    nproc: int
    way: str
    """The command of ddpdoctor."""
    torchrun: str
    torchfrtrace: str
    ddpdoctor: str
    wrongs: tuple[str, ...]

    def markdown(self) -> str:
        """The row of the table."""
        verdict = "right" if not self.wrongs else "wrong: " + "; ".join(self.wrongs)
        cells = (
            self.case.name,
            self.style,
            str(self.culprit),
            self.way,
            self.torchrun,
            self.torchfrtrace,
            self.ddpdoctor,
            verdict,
        )
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def run(
    cases: Sequence[Case],
    nproc: int,
    culprits: Sequence[int],
    *,
    styles: Sequence[str],
    ways: Sequence[str],
    others: bool,
    jobs: int,
) -> int:
    """Print the table and the count of each style and way; 1 where ddpdoctor was wrong."""
    print("| job | style | culprit | by | torchrun | torchfrtrace | ddpdoctor | |\n|---|---|---|---|---|---|---|---|")
    right: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    with ThreadPoolExecutor(jobs) as pool:
        asked = [
            pool.submit(rows, case, culprit, nproc, style=style, ways=ways, others=others)
            for case in cases
            for style in styles
            if style in case.styles
            for culprit in culprits
        ]
        for future in asked:
            for line in future.result():
                print(line.markdown(), flush=True)
                right[line.style, line.way] += not line.wrongs
                total[line.style, line.way] += 1
    print()
    for style, way in total:
        print(f"{style}, {way}: {right[style, way]} of {total[style, way]} right, {nproc} ranks")
    return int(right.total() < total.total())


def rows(case: Case, culprit: int, nproc: int, *, style: str, ways: Sequence[str], others: bool) -> list[Row]:
    """One job, up to three times: as it is, leaving dumps for torchfrtrace, watched, and looked at unprepared."""
    command = torchrun(case.program, nproc, case.arguments(culprit))
    today = trace = ""
    if others:
        with tempfile.TemporaryDirectory(prefix="ward-") as folder:
            recording = Recording.below(Path(folder))
            ended = plain(command, culprit=culprit, recording=recording, still_after=STILL_SECONDS, style=style)
            today = told_by_torchrun(ended)
            trace = told_by_torchfrtrace(recording.dumps)
    reports = {}
    if "watch" in ways:
        reports["watch"] = watch(command, culprit=culprit, style=style)
    if {"hang", "diagnose"} & {*ways}:
        seen = inspected(
            command, culprit=culprit, style=style, with_pipe="pipe" in ways, still_after=STILL_BEFORE_HANG_SECONDS
        )
        reports |= {way: report for way, report in seen.items() if way in ways}
    return [
        _row(case, culprit, nproc, style=style, way=way, watched=watched, others=(today, trace))
        for way, watched in reports.items()
    ]


def _row(
    case: Case, culprit: int, nproc: int, *, style: str, way: str, watched: Watched, others: tuple[str, str]
) -> Row:
    wrongs = case.wrongs(watched.report, culprit, nproc)
    first = next(iter(watched.report["findings"]), None)
    ours = f"{first['code']} {first['message']}" if first else f"nothing (exit code {watched.ended.code})"
    return Row(
        case=case,
        style=style,
        culprit=culprit,
        nproc=nproc,
        way=way,
        torchrun=others[0],
        torchfrtrace=others[1],
        ddpdoctor=ours,
        wrongs=tuple(wrongs),
    )


def told_by_torchrun(ended: ProgramEnd) -> str:
    """What stood on the screen: each rank's last error, and whom torchrun calls the root cause."""
    text = ended.stdout + ended.stderr
    errors = dict.fromkeys(re.findall(r"^(\[rank\d+\]: \w*(?:Error|Exception|Interrupt)\b.*)$", text, re.MULTILINE))
    told = [_short(error) for error in errors]
    if ended.timed_out:
        return (
            "; ".join([*told, f"nothing more in {STILL_SECONDS:.0f} s"])
            if told
            else f"nothing in {STILL_SECONDS:.0f} s"
        )
    root = re.search(r"Root Cause.*?rank\s+: (\d+).*?exitcode\s+: (-?\d+)", text, re.DOTALL)
    if root:
        told.append(f"root cause: rank {root[1]}, exit code {root[2]}")
    return "; ".join(told) or f"nothing, exit code {ended.code}"


def told_by_torchfrtrace(dumps: Path) -> str:
    """Its last words over the dumps."""
    if not list(dumps.glob("rank_*")):
        return "no dumps"
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(dumps), "--prefix", "rank_"]
    ended = guarded_process.run(command, deadline_seconds=60)
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    if ended.code:
        return f"crashes: {_short(lines[-1])}" if lines else f"crashes with exit code {ended.code}"
    return _short(lines[-1]) if lines else "nothing"


def _short(line: str) -> str:
    for pattern, words in MATCHERS.items():
        if re.search(pattern, line):
            line = line.partition(": ")[0] + ": " + words
    line = re.sub(r"\[/\S+/(\w+\.cc:\d+)\] ", r"\1 ", line)
    line = re.sub(r"/\S+/(\w+\.py)", r"\1", line)
    return line if len(line) <= 110 else line[:107] + "..."

"""Evidence to files and back: nothing lost, hostile files refused with a sentence."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from ddpdoctor import case
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.audited_steps import Gradient, StepSeen
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State
from ddpdoctor.evidence.training_trace import Track

LAUNCH = Launch.from_environ(
    {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "node-a", "MASTER_PORT": "29500"}
)
EVIDENCE = Evidence(
    ranks=(RankFacts(rank=1, host="node-b", facts=(LAUNCH,)),),
    missing=(Missing(kind="Gpus", reason="no driver", rank=1),),
    notes=("a note",),
    undecided=("rank 0 never came",),
    about_job=True,
    meta={"command": "env"},
)


def test_the_attempts_of_a_restarted_job_come_back(tmp_path: Path) -> None:
    restarted = Evidence(notes=("the second attempt",), earlier=(EVIDENCE,))

    case.save(restarted, tmp_path / "case.json")

    assert case.load(tmp_path / "case.json") == restarted


@pytest.mark.parametrize("name", ["case.json", "folder"])
def test_a_case_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    file = case.save(EVIDENCE, tmp_path / name)
    assert json.loads(file.read_text())["schema"] == "ddpdoctor.case/1"
    assert case.load(tmp_path / name) == EVIDENCE


def test_numbers_that_json_has_no_name_for_come_back(tmp_path: Path) -> None:
    """Regression: a case with an infinite gradient could not be read, and a loss that was NaN came back as unknown."""
    gradient = Gradient(digest="0", reduced=math.inf, local=-math.inf, count=1, standing="reduced")
    step = StepSeen(step=0, forwards=1, since=0, weights="w", after="w", loss=math.nan, gradients={"nan": gradient})
    track = Track(method="xxh3", every=1, steps=(step,))
    evidence = Evidence(ranks=(RankFacts(rank=0, host="a", facts=(track,)),))

    case.save(evidence, tmp_path / "case.json")

    assert repr(case.load(tmp_path / "case.json")) == repr(evidence)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a ddpdoctor case"),
        (b"\x80\x04\x95garbage", "is not a ddpdoctor case"),
        (b"[" * 100_000, "is not a ddpdoctor case"),
        (b"[]", 'it has no "schema" key'),
        (b'{"schema": "\xc6"}', "is not a ddpdoctor case"),
        (b'{"schema": "ddpdoctor.case/9"}', "its \"schema\" is 'ddpdoctor.case/9', expected 'ddpdoctor.case/1'"),
        (b'{"schema": "ddpdoctor.case/9", "written_by": "ddpdoctor 7.1"}', "; ddpdoctor 7.1 wrote it and reads it"),
        (b'{"schema": "ddpdoctor.case/1", "ranks"', "is not a ddpdoctor case: its end is missing"),
        (b'{"schema": "ddpdoctor.case/1", "ranks": 5}', "Expected `array`, got `int` - at `$.ranks`"),
        (
            b'{"schema": "ddpdoctor.case/1", "ranks": [{"rank": 0, "host": "a", "facts": {"Launch": {"rank": "x"}}}]}',
            "is not a valid case",
        ),
    ],
)
def test_a_foreign_file_is_refused_with_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        case.load(path)
    assert said in refused.value.message
    assert str(path) in refused.value.message


def test_a_case_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        case.load(tmp_path / "nothing.json")


def test_evidence_of_a_newer_version_is_said_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"schema": case.SCHEMA, "job": {"FutureKind": {"x": 1}}}))
    loaded = case.load(path)
    assert loaded.job == ()
    assert loaded.notes == ("the case holds evidence this version does not know and ignores: FutureKind",)


def test_a_field_that_an_earlier_version_wrote_is_left_out(tmp_path: Path) -> None:
    file = case.save(EVIDENCE, tmp_path)
    document = json.loads(file.read_text())
    document["ranks"][0]["facts"]["Launch"]["no_longer_kept"] = 3
    file.write_text(json.dumps(document))
    assert case.load(tmp_path) == EVIDENCE


def test_cases_and_reports_are_for_their_owner_alone_unless_somebody_chose_otherwise(tmp_path: Path) -> None:
    file = case.save(EVIDENCE, tmp_path / "case.json")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    assert case.save(EVIDENCE, file).stat().st_mode & 0o777 == 0o640


def test_what_ranks_have_in_common_is_kept_once_and_what_is_wrong_in_it_is_named(tmp_path: Path) -> None:
    """A case of thousands of ranks is read in memory that their differences take."""
    number = 400
    records = [
        FlightRecord(
            version="2.10",
            groups=(ProcessGroup(backend="nccl", name="0", description="default_pg", ranks=(0, 1)),),
            calls=(Call(group=0, op="all_reduce"),),
            call=(0,) * number,
            seq=tuple(range(number)),
            stack=(0,) * number,
            state=(State.DONE,) * number,
            created_ns=tuple(range(rank, rank + number)),
        )
        for rank in range(2)
    ]
    evidence = Evidence(
        ranks=tuple(RankFacts(rank=rank, host="a", facts=(record,)) for rank, record in enumerate(records))
    )
    file = case.save(evidence, tmp_path)

    loaded = case.load(file)

    assert loaded == evidence
    first, second = (entry.value for entry in loaded.per_rank(FlightRecord) or ())
    assert first.seq is second.seq
    assert first.groups is second.groups
    assert first.created_ns is not second.created_ns

    document = json.loads(file.read_text())
    written = document["ranks"][1]["facts"]["FlightRecord"]
    for damaged, said in (
        (written | {"seq": "x"}, "Expected `array`, got `str` - at `$.seq`"),
        ({name: value for name, value in written.items() if name != "version"}, "missing required field `version`"),
        ({name: value for name, value in written.items() if name != "seq"}, "are not equally long"),
    ):
        document["ranks"][1]["facts"]["FlightRecord"] = damaged
        file.write_text(json.dumps(document))
        with pytest.raises(UsageError, match=re.escape(said)):
            case.load(file)

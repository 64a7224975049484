"""Every record of a training trace comes back as it was written, and as evidence; torn lines and other versions do not."""

from __future__ import annotations

import json
import tempfile
from array import array
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema import (
    data_records,
    final_records,
    hardware_records,
    model_records,
    step_records,
    unwrapped_records,
)
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.agent.inside.schema.training_trace import VERSION, Joined, TraceRecord
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.evidence.audited_steps import Gradient, PartMark
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.ranks.call_ring_reader import OtherVersionError
from ddpdoctor.ranks.training_trace_files import read_trace
from ddpdoctor.ranks.training_trace_reader import read_tracks

NAME = st.text(max_size=8)
COUNT = st.integers(0, 1 << 40)
NUMBER = st.floats(allow_nan=False)
LINE = st.builds(SourceLine, NAME, COUNT, NAME)
MAYBE_COUNT = st.none() | COUNT
MAYBE_LINE = st.none() | LINE
NAMES = st.none() | st.lists(NAME, max_size=2)
DIGESTS = st.dictionaries(NAME, NAME, max_size=2)
PARTS = st.dictionaries(NAME, st.builds(step_records.Part, COUNT, NAME), max_size=2)
STATES = st.dictionaries(NAME, st.integers(-(1 << 63), (1 << 63) - 1), max_size=2)
SHAPE = st.lists(COUNT, max_size=3)
ROW = st.builds(model_records.TensorRow, NAME, NAME, NAME, SHAPE, SHAPE | NAME, st.booleans(), NAME)
BACKWARD = st.builds(
    step_records.Backward, COUNT, st.none() | st.booleans(), COUNT, st.booleans(), st.none() | NAME, st.none() | NUMBER,
    MAYBE_LINE, MAYBE_LINE, MAYBE_LINE, MAYBE_LINE,
)  # fmt: skip
STEPPING = st.builds(
    step_records.Stepping, NAME, MAYBE_LINE, DIGESTS, st.lists(st.tuples(LINE, st.lists(NAME, max_size=2)),
    max_size=2), MAYBE_LINE,
    st.none() | st.builds(model_records.NamedDigests, NAMES, NAME), PARTS,
)  # fmt: skip
GRADIENTS = st.builds(
    step_records.Gradients,
    NAMES,
    NAME,
    NAME,
    NAME,
    st.lists(COUNT, max_size=2),
    NAMES,
    st.dictionaries(NAME, LINE, max_size=1),
)
RECORDS = {
    Joined: st.builds(Joined, st.just(VERSION), st.none() | COUNT, NAME, NAME, COUNT),
    model_records.ModelListing: st.builds(model_records.ModelListing, st.lists(ROW, max_size=2)),
    model_records.Wrapped: st.builds(model_records.Wrapped, MAYBE_LINE, st.none() | st.lists(st.integers(0, 9))),
    model_records.BufferBroadcasts: st.builds(model_records.BufferBroadcasts, NAME, st.booleans(), st.lists(NAME, max_size=2)),
    model_records.WrappedTwice: st.builds(model_records.WrappedTwice, LINE),
    hardware_records.Recomputed: st.builds(
        hardware_records.Recomputed, COUNT, COUNT, COUNT, NAME, NAME, NAME, NAME, NAME, NAME
    ),
    model_records.Table: st.builds(
        model_records.Table, NAME, NAME, NAMES, NAME,
        st.lists(st.builds(model_records.Samples, st.none() | st.lists(COUNT, max_size=2), NAME, NAME), max_size=2),
        st.none() | st.lists(SHAPE, max_size=2),
    ),
    step_records.Step: st.builds(
        step_records.Step, COUNT, COUNT, COUNT, COUNT, COUNT, BACKWARD,
            st.none() | st.builds(step_records.BatchPosition, COUNT, COUNT),
        st.none() | NUMBER, STEPPING, st.none() | GRADIENTS, DIGESTS, NAME, NAME, PARTS, STATES, STATES,
        st.dictionaries(NAME, LINE, max_size=1), MAYBE_LINE, st.dictionaries(NAME, st.lists(LINE, max_size=2), max_size=1),
        st.none() | st.builds(step_records.Averaging, COUNT, COUNT, MAYBE_LINE),
    ),
    hardware_records.Integrity: st.builds(
        hardware_records.Integrity, COUNT, COUNT, COUNT, st.builds(hardware_records.StepVersions, COUNT, COUNT,
        COUNT), NAME, NAME, NAME,
        st.lists(COUNT, max_size=2), NAME,
    ),
    hardware_records.Device: st.builds(hardware_records.Device, NAME),
    hardware_records.Probe: st.builds(
        hardware_records.Probe, COUNT, COUNT, NAME, NAME, st.lists(NAME, max_size=2), NAME, NAME,
        st.dictionaries(NAME, NAME, max_size=1)
    ),
    step_records.Overflow: st.builds(step_records.Overflow, COUNT, COUNT, st.none() | NUMBER, MAYBE_LINE),
    step_records.UnwaitedWork: st.builds(step_records.UnwaitedWork, NAME, COUNT, MAYBE_LINE, NAME),
    data_records.Epoch: st.builds(
        data_records.Epoch, COUNT, COUNT, st.none() | COUNT, COUNT, st.booleans(), MAYBE_LINE, NAME, st.none() | NAME, NAME,
        st.none() | st.builds(data_records.Share, COUNT, COUNT, COUNT, MAYBE_LINE, MAYBE_LINE, st.none() | COUNT),
    ),
    data_records.Evaluation: st.builds(data_records.Evaluation, COUNT, COUNT, COUNT, NAME, COUNT, MAYBE_LINE),
    final_records.LastWeights: st.builds(final_records.LastWeights, COUNT, NAME, COUNT, MAYBE_COUNT, MAYBE_COUNT, NAME),
    final_records.LastState: st.builds(final_records.LastState, COUNT, COUNT, st.lists(NAME, max_size=2), NAME, NAME,
        MAYBE_COUNT),
    unwrapped_records.UnwrappedModels: st.builds(
        unwrapped_records.UnwrappedModels, COUNT, COUNT, COUNT, COUNT, st.sampled_from(["step", "end"]),
        st.lists(st.builds(unwrapped_records.UnwrappedModel, NAME, NAME, COUNT, NAME), max_size=2),
    ),
    unwrapped_records.UnwrappedUse: st.builds(
        unwrapped_records.UnwrappedUse, NAME, st.sampled_from(["forward", "state_dict"]), COUNT, MAYBE_LINE
    ),
    unwrapped_records.UnwrappedWrite: st.builds(unwrapped_records.UnwrappedWrite, NAME, LINE),
    final_records.End: st.builds(final_records.End, COUNT, COUNT, COUNT),
}  # fmt: skip


def written(folder: Path, *records: TraceRecord) -> Path:
    """A trace with these records, as a rank writes it."""
    rank = Rank(str(folder))
    rank.place((), {})
    writer = TraceWriter(rank)
    for record in records:
        writer.write(record)
    writer.close()
    return Path(rank.path("sync.jsonl"))


def test_there_is_a_strategy_for_each_kind_of_record() -> None:
    assert set(RECORDS) == set(get_args(TraceRecord))


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_record_comes_back_as_it_was_written_and_a_torn_line_does_not(kind: type[TraceRecord], data: Any) -> None:
    record = data.draw(RECORDS[kind])
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder), record)
        whole = file.read_bytes()
        file.write_bytes(whole + whole[: data.draw(st.integers(1, len(whole) - 2))])
        assert read_trace(file) == (record,)


JOINED = Joined(VERSION, 3, "node1", "XXH3, 128 bits", 1)
HERE = SourceLine("/job/train.py", 7, "step")
FRAME = Frame(file="/job/train.py", line=7, function="step")
INFINITE = float("inf")


def doubles(*numbers: float) -> str:
    return array("d", numbers).tobytes().hex()


def test_a_step_is_evidence_with_each_field_in_its_place(tmp_path: Path) -> None:
    step = step_records.Step(
        step=5, forwards=6, since=1, beside=0, shadowed=2,
        backward=step_records.Backward(
            wrapped=2, synchronised=True, batch=8, finite=False, input="ab", loss=INFINITE, forward=HERE, load=HERE
        ),
        position=step_records.BatchPosition(epoch=1, batches=4), scale=INFINITE,
        stepping=step_records.Stepping(
            optimizer="SGD", line=HERE, settings={"lr": "0.1"}, setting_lines=[(HERE, ["lr"])], loaded=None,
            state=model_records.NamedDigests(["m"], "6" * 16), parts={"p": step_records.Part(1, "ef", 7, "0" * 14 + "2a", 32)},
        ),
        gradients=step_records.Gradients(
            names=["a", "b"], digests="0" * 16 + "1" * 16, reduced=doubles(0.1, -INFINITE), local=doubles(0, 0.3), counts=[0, 2],
            standings=["reduced", "added"], origins={"b": HERE}, not_finite=("b",),
        ),
        buffers={"c": "gh"}, weights="before", after="later", parts={"p": step_records.Part(1, "ij")}, random_before={"torch": 1},
        random_after={"torch": 2}, bypassed={"": HERE}, comm_hook=HERE, writes={"weights": [HERE]},
    )  # fmt: skip
    sampled = model_records.Samples([0], "float64", doubles(1.5, 2.5, -0.0, float("nan")))
    table = model_records.Table("weights", "before", ["a", "b"], "2" * 16 + "3" * 16, [sampled], [[2, 2], []])
    again = model_records.Table("after", "later", None, "4" * 16 + "5" * 16, [], None)
    repeated = step._replace(
        forwards=7, stepping=step.stepping._replace(state=model_records.NamedDigests(None, "7" * 16)),
        gradients=step.gradients._replace(names=None, standings=None) if step.gradients is not None else None,
    )  # fmt: skip
    written(tmp_path, JOINED, table, again, step, repeated)
    (rank,) = read_tracks(tmp_path)
    (track,) = (fact for fact in rank.facts if isinstance(fact, Track))
    seen, later = track.steps
    assert (rank.rank, rank.host, track.method, track.every) == (3, "node1", "XXH3, 128 bits", 1)
    assert (seen.step, seen.key, seen.shadowed, seen.position, seen.scale) == (5, (6, 1, 0), 2, (1, 4), INFINITE)
    assert (seen.wrapped, seen.synchronised, seen.batch, seen.finite, seen.input, seen.loss) == (
        2, True, 8, False, "ab", INFINITE,
    )  # fmt: skip
    assert seen.lines == {"forward": FRAME, "load": FRAME}
    assert (seen.optimizer, seen.line, seen.settings, seen.loaded, seen.state) == (
        "SGD", FRAME, {"lr": "0.1"}, None, {"m": "6" * 16},
    )  # fmt: skip
    assert (seen.setting_lines, seen.origins, seen.bypassed, seen.comm_hook, seen.writes) == (
        {"lr": FRAME}, {"b": FRAME}, {"": FRAME}, FRAME, {"weights": (FRAME,)},
    )  # fmt: skip
    assert seen.part_marks_before == {"p": PartMark(writes=7, parity=42, bits=32)}
    assert seen.part_marks == {}  # of a writer that did not look
    assert (seen.parts_before, seen.parts, seen.buffers) == ({"p": (1, "ef")}, {"p": (1, "ij")}, {"c": "gh"})
    assert seen.not_finite == ("b",)
    assert (seen.weights, seen.after, seen.random) == ("before", "later", ({"torch": 1}, {"torch": 2}))
    assert seen.gradients == {
        "a": Gradient(digest="0" * 16, reduced=0.1, local=None, count=0, standing="reduced"),
        "b": Gradient(digest="1" * 16, reduced=-INFINITE, local=0.3, count=2, standing="added"),
    }
    assert (later.gradients, later.state) == (seen.gradients, {"m": "7" * 16}), "names are those of the step before"
    assert track.tables["before"].samples == {
        "a": ((0, "1.5"), (1, "2.5"), (2, "-0.0"), (3, "nan (0x7ff8000000000000)")), "b": (),
    }  # fmt: skip
    assert track.tables["later"].digests == {"a": "4" * 16, "b": "5" * 16}, "names are those of the table before"
    assert track.tables["later"].shapes == {"a": (2, 2), "b": ()}


def test_of_two_wrappers_of_a_model_the_last_tells_what_becomes_of_its_buffers(tmp_path: Path) -> None:
    first, second = model_records.BufferBroadcasts("", True, []), model_records.BufferBroadcasts("", False, ["hits"])
    written(
        tmp_path,
        JOINED,
        model_records.Wrapped(None),
        first,
        model_records.BufferBroadcasts("model2:", True, []),
        second,
    )
    ((track,),) = (facts.facts for facts in read_tracks(tmp_path))
    assert isinstance(track, Track)
    assert track.broadcasts_buffers == {"": False, "model2:": True}
    assert track.ignored_buffers == {"hits"}


def test_a_trace_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    file = written(tmp_path, JOINED)
    assert len(read_tracks(tmp_path)) == 1
    file.write_text(json.dumps(["Joined", [VERSION + 1, 3, "node1", {"what": "else"}]]) + "\n")
    with pytest.raises(OtherVersionError) as refused:
        read_tracks(tmp_path)
    assert refused.value.message == (
        f"the training trace of rank 3 has format {VERSION + 1}, and this ddpdoctor reads format {VERSION}"
    )


@pytest.mark.parametrize(
    "line", ["{}", "7", '["End"]', '["End", [1, "x", 1]]', '["Nobody", []]', "[[], []]", '["Joined", []]']
)
def test_a_line_that_is_no_record_is_left_out(line: str, tmp_path: Path) -> None:
    file = written(tmp_path, JOINED)
    with file.open("a") as more:
        more.write(line + "\n")
    assert read_trace(file) == (JOINED,)

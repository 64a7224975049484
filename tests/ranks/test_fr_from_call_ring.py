"""The record of a rank that could not hand its recorder out names groups as the recorders of its peers do."""

from __future__ import annotations

import pytest

from ddpdoctor.agent.inside.schema.call_ring import NO_RANK, Collective
from ddpdoctor.agent.inside.schema.call_texts import Group, Op, TensorSpec
from ddpdoctor.ranks.call_texts_reader import Texts
from ddpdoctor.ranks.fr_from_call_ring import record_from


@pytest.mark.parametrize(
    ("described", "description"), [("undefined", ""), ("TENSOR_PARALLEL", "TENSOR_PARALLEL"), ("", "")]
)
def test_a_group_that_the_program_does_not_describe_has_no_description(described: str, description: str) -> None:
    texts = Texts({
        (Op, 1): Op("all_reduce"),
        (Group, 1): Group(name="2", description=described, backend="gloo", ranks=(2, 3)),
        (TensorSpec, 1): TensorSpec(shape=(4,), dtype="float32"),
    })  # fmt: skip
    call = Collective(
        began_ns=1, returned_ns=0, seq=7, root=NO_RANK, op=1, group=1, place=0, reduce_op=0, tensor=1
    )  # fmt: skip
    record = record_from([call], texts)
    assert record is not None
    assert [(group.name, group.description, group.ranks) for group in record.groups] == [("2", description, (2, 3))]


@pytest.mark.parametrize(
    ("op", "backend", "named", "outputs"),
    [
        ("all_gather_single", "gloo", "all_gather", ()),
        ("reduce_scatter_tensor", "gloo", "all_reduce", ((4,),)),
        ("all_gather_into_tensor", "nccl", "all_gather_into_tensor", ()),
    ],
)
def test_calls_that_gloo_makes_of_others_have_the_names_that_its_recorder_gives(
    op: str, backend: str, named: str, outputs: tuple[tuple[int, ...], ...]
) -> None:
    """Ranks of FSDP that a backend's own thread ended are compared with those whose recorder is there."""
    texts = Texts({
        (Op, 1): Op(op),
        (Group, 1): Group(name="0", description="default_pg", backend=backend, ranks=(0, 1)),
        (TensorSpec, 1): TensorSpec(shape=(4,), dtype="float32"),
    })  # fmt: skip
    call = Collective(began_ns=1, returned_ns=0, seq=7, root=NO_RANK, op=1, group=1, place=0, reduce_op=0, tensor=1)
    record = record_from([call], texts)
    assert record is not None
    (only,) = record.calls
    assert (only.op, only.input_sizes, only.output_sizes) == (named, ((4,),), outputs)

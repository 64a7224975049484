"""The pace of a rank: batches of the data set that it trains on."""

from __future__ import annotations

from ddpdoctor.agent.inside.schema.call_ring import Batch, Forward
from ddpdoctor.ranks.call_log_reader import CallLogReader
from ddpdoctor.ranks.call_texts_reader import read_texts


def batch(data_set: int, at: int) -> Batch:
    return Batch(asked_ns=at - 1, drawn_ns=at, seq=0, iteration=at, data_set=data_set, in_pass=at, of=-1)


def forward(number: int, at: int) -> Forward:
    return Forward(began_ns=at, seq=0, number=number, turn=-1, place=0)


def test_batches_of_an_evaluation_are_no_input_of_training() -> None:
    trains = (batch(1, 10), forward(1, 11), batch(1, 20), forward(2, 21))
    evaluates = (batch(2, 30), batch(2, 40), batch(2, 50))

    pace = CallLogReader((*trains, *evaluates), read_texts(b"")).pace()

    assert pace.drawn_ns == (10, 20)
    assert pace.forward_ns == (11, 21)


def test_without_a_forward_every_batch_counts() -> None:
    assert CallLogReader((batch(1, 10), batch(2, 20)), read_texts(b"")).pace().drawn_ns == (10, 20)

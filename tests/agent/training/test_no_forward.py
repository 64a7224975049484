"""A method of the wrapped model is called past the wrapper: no forward is seen, and the backward is shown."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank


class Encoder(nn.Module):
    """A model that is also called by a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def features(self, batch: Tensor) -> Tensor:
        return self.layer(batch)

    def forward(self, batch: Tensor) -> Tensor:
        return self.features(batch)


def test_the_backward_is_told_where_no_forward_was_seen(tmp_path: Path) -> None:
    module = Encoder()
    followed = FollowedRank(tmp_path, module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    batch = torch.ones(3, 4)
    followed.step(optimizer, batch)
    followed.forward = lambda given: module.features(given)
    for _ in range(2):
        followed.step(optimizer, batch)
    followed.forward = None
    followed.step(optimizer, batch)
    followed.tracker.close()
    steps = followed.written(Step)
    assert [one.backward.wrapped for one in steps] == [1, 0, 0, 1]
    assert all(one.backward.backward is not None for one in steps)
    assert [[*one.bypassed] for one in steps] == [[], [], [""], []], "the next call of a part is seen"
    assert steps[2].bypassed[""].function == "<lambda>", "and not the method that makes it"
    assert not module.layer._forward_pre_hooks

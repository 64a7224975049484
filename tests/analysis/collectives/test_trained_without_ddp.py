"""A rank that made further steps without a forward of a DDP model, and ended: what is to be done is not about batches."""

import pytest

from ddpdoctor.engine import diagnose
from tests.jobs_that_end_early import without_ddp


@pytest.mark.parametrize(("steps", "told"), [(9, True), (1, False)])
def test_the_model_is_named_only_where_the_rank_made_further_steps(steps: int, *, told: bool) -> None:
    finding = diagnose(without_ddp(steps=steps)).findings[0]
    assert (finding.code, finding.ranks) == ("DDP306", (1,))
    assert ("model.module" in finding.remedy) is told
    assert any("called no forward of a DDP model" in detail for detail in finding.details) is told

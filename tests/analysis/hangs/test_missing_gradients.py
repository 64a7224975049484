"""Parameters without a gradient accuse a rank only where its peers have told that they have all of theirs."""

from ddpdoctor.engine import diagnose
from tests.checks.ddp404_unused_parameters import lacks, stands


def test_parameters_that_all_ranks_lack_or_of_which_a_rank_does_not_tell_are_not_reported() -> None:
    """A parameter that no loss uses, and a peer whose agent did not answer."""
    own = lacks("extra.weight")
    for evidence in (stands(own, own, own), stands(None, own, lacks()), stands(lacks(), lacks(), lacks())):
        assert "DDP404" not in {finding.code for finding in diagnose(evidence).findings}


def test_a_rank_past_an_earlier_backward_has_taken_its_gradients_away() -> None:
    """DINO sets the gradients of its last layer to None in the first epoch, on every rank after its backward."""
    evidence = stands(lacks(), lacks("last_layer.weight"), lacks(), forwards=6)
    assert "DDP404" not in {finding.code for finding in diagnose(evidence).findings}

"""What looks at one part of a rank's training each: gradients, evaluations, averaged weights, lines that write, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..data.dataloader_hooks import Batches
from .async_work import Unwaited
from .close_up import CloseUp, CloseUpWatch
from .double_wrap import DoubleWraps
from .end_of_training import EndOfTraining
from .evaluation import EvaluationLog
from .evaluation_forwards import EvaluationForwards
from .first_lost_loss import FirstLostLoss
from .gradient_groups import GradientGroups
from .gradients import GradientHooks
from .integrity import IntegrityLog
from .parameter_origin import Origins
from .probe import ProbeLog
from .recompute import Recomputation
from .replica import Replica
from .shard_digests import ShardDigests
from .trained_weights import TrainedWeights
from .unwrapped_models import UnwrappedLog
from .weight_averaging import WeightAveraging
from .write_watch import WriteWatch


class Requested(NamedTuple):
    """What is asked for besides the digests of audited steps."""

    close_up: CloseUp = CloseUp()
    """What a replay looks for."""
    probe_every: int = 0
    """After how many steps a probe batch runs; 0: never."""
    recompute: bool = False
    """Whether each audited step is made again, on copies."""


class Observers:
    """The observers of one replica, which know nothing of each other but what is passed to them here."""

    def __init__(
        self, replica: Replica, batches: Batches, collectives: Callable[[], int], requested: Requested
    ) -> None:
        """`collectives` returns how many collectives the user's code has called so far."""
        trace, digests, models = replica.trace, replica.digests, replica.models
        self.batches = batches
        self.origins = Origins(trace)
        self.weights = TrainedWeights(models, digests, replica.optimizers)
        self.averaging = WeightAveraging(self.weights.tensors)
        self.gradients = GradientHooks(trace, replica.budget, digests, models)
        self.gradient_groups = GradientGroups(self.weights.tensors)
        self.shards = ShardDigests(digests)
        self.integrity = IntegrityLog(trace, digests, models)
        self.is_replay = bool(requested.close_up.steps)
        self.close_up = CloseUpWatch(requested.close_up, replica)
        self.looks_closest: Callable[[], bool] = lambda: requested.recompute or self.close_up.is_asked_for()
        self.recomputation = Recomputation(trace, digests, models, self.looks_closest, collectives)
        self.unwrapped = UnwrappedLog(trace, digests, models, replica.counts, replica.optimizers)
        self.write_watch = WriteWatch(trace, replica.settings, self.unwrapped, self.weights.now, self.weights.gradients)
        self.evaluation = EvaluationLog(trace, replica.budget, digests, collectives)
        self.evaluation_forwards = EvaluationForwards()
        self.double_wraps = DoubleWraps(trace)
        self.first_lost_loss = FirstLostLoss()
        self.probe = ProbeLog(trace, digests, requested.probe_every)
        self.unwaited = Unwaited(trace, lambda: replica.counts.steps)
        self.end = EndOfTraining(replica, self.averaging)

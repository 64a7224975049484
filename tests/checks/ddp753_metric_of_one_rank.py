"""Training programs with DDP753 metric-of-one-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_METER = """\
class Meter:
    def __init__(self, device):
        self.hits = torch.zeros(2, device=device)

    def update(self, hits):
        self.hits += torch.stack([hits.sum(), torch.ones_like(hits).sum()])

    def compute(self):
        dist.all_reduce(self.hits)
        return (self.hits[0] / self.hits[1]).item()


def report(meter):
    print(f"rank {dist.get_rank()}: accuracy {meter.compute():.3f}")


"""
SICK = (
    Sick(
        evidence=training(("    dist.all_reduce(correct)\n", "")),
        says=(
            "`accuracy` is printed, and it is of this rank's part of the data: the loader of line 36 gives "
            "each rank another part"
        ),
        where=("train.py:54 main", "train.py:36 main"),
    ),
)
HEALTHY = (
    training(
        ("    dist.all_reduce(correct)\n", ""),
        (", sampler=DistributedSampler(val_data, shuffle=False, drop_last=True)", ""),
    ),
    training(
        ("print(epoch, accuracy)", "print(epoch, 'rank', rank, accuracy)"),
        ("    dist.all_reduce(correct)\n", ""),
        (("        if accuracy > best:\n            best = accuracy\n"), ""),
    ),
    training(  # what a method makes of the meter is summed over all ranks
        ("def evaluate(", _METER + "def evaluate("),
        ("    correct = torch.zeros(2, device=device)\n", "    meter = Meter(device)\n"),
        (
            "            correct += torch.stack([hits.sum(), torch.ones_like(hits).sum()])\n",
            "            meter.update(hits)\n",
        ),
        ("    dist.all_reduce(correct)\n    return (correct[0] / correct[1]).item()\n", "    report(meter)\n"),
        ("        accuracy = evaluate", "        evaluate"),
        ("            print(epoch, accuracy)\n", "            print(epoch)\n"),
        ("        if accuracy > best:\n            best = accuracy\n", ""),
    ),
)

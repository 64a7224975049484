"""Functions, loaders, orders and contexts that a program hands on: a mistake, and its healthy twin."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source, training

_Changes = list[tuple[str, str]]
_FORWARD = "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
_GROUP = '    dist.init_process_group("nccl")\n'
_RANKS = '    rank = int(os.environ["RANK"])\n    local_rank = int(os.environ["LOCAL_RANK"])\n'
_SAVES = '            torch.save(ddp.module.state_dict(), "last.pt")\n'
_LAUNCHER = """def entry(index, work, world):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29400")
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=world)
    work(index, world)


def launch(work):
    world = torch.cuda.device_count()
    if world > 1:
        torch.multiprocessing.spawn(entry, args=(work, world), nprocs=world)
    else:
        entry(0, work, 1)


"""


def _launched(saves: str) -> _Changes:
    """A launcher is given the function that the ranks run, and what it starts calls it with the rank."""
    return [
        (_RANKS, "    local_rank = number\n"),
        (_GROUP, ""),
        ("    torch.cuda.set_device(local_rank)\n", ""),
        ("def main():\n", f"{_LAUNCHER}def main(number, world):\n"),
        ("    main()\n", "    launch(main)\n"),
        ("        if rank == 0:\n            print(epoch, accuracy)\n", f"        {saves}:\n            pass\n"),
        (_SAVES, f"        {saves}:\n{_SAVES}"),
    ]


def _warmed_up(loop: str) -> _Changes:
    """A function goes over the batches of a loader: of one that is used once, and of one for all epochs."""
    steps = (
        "def steps(ddp, batches, optimizer):\n"
        "    for images, labels in batches:\n"
        "        loss = nn.functional.cross_entropy(ddp(images), labels)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n\n\n"
    )
    return [
        ("def main", f"{steps}def main"),
        (
            "    best = 0.0\n",
            "    first = DataLoader(val_data, 64, sampler=DistributedSampler(val_data))\n    best = 0.0\n",
        ),
        ("    for epoch in range(10):\n", f"    steps(ddp, first, optimizer)\n    for epoch in range(10):\n{loop}"),
    ]


def _quiet(chosen: str, entered: str) -> _Changes:
    """What is entered around the forward was chosen before all steps, or in each of them."""
    return [
        ("import os\n", "import os\nfrom contextlib import nullcontext\n"),
        ("    best = 0.0\n", f"    best = 0.0\n    accumulation = 4\n{chosen}"),
        (f"{_FORWARD}            loss", f"            with {entered}:\n    {_FORWARD}                loss"),
    ]


def _by_a_helper(test: str) -> _Changes:
    """A function gives one of two contexts back, by an early return."""
    helper = (
        f"def block(ddp, accumulation, step):\n    if {test}:\n        return ddp.no_sync()\n    return nullcontext()\n"
    )
    return [*_quiet("", "block(ddp, accumulation, epoch)"), ("def main", f"{helper}\n\ndef main")]


def _halved(order: str, rest: str) -> _Changes:
    """A helper takes two parts of an order that its caller has drawn, or goes over it in batches."""
    helper = f"def halves(order, size):\n    held = [number for number in order[:size]]\n    return held, {rest}\n\n\n"
    return [
        ("    torch.manual_seed(0)\n", ""),
        ("def main", f"{helper}def main"),
        ("    best = 0.0\n", f"    order = {order}\n    held, kept = halves(order, 5000)\n    best = 0.0\n"),
    ]


def _with_destination(given: str) -> _Changes:
    """The local rank of the launcher arrives under another name."""
    parses = (
        "    parser = argparse.ArgumentParser()\n"
        f'    parser.add_argument("{given}", dest="gpu", type=int, default=0)\n'
        "    args = parser.parse_args()\n"
    )
    return [
        ("import os\n", "import argparse\nimport os\n"),
        (_GROUP, f'{parses}    dist.init_process_group("nccl", rank=args.gpu, world_size=dist.get_world_size())\n'),
    ]


def _variables(change: str) -> _Changes:
    """The variables of the rendezvous stand in a dict that the environment takes in."""
    table = f'    variables = {{"MASTER_PORT": "29500"}}\n{change}    os.environ.update(variables)\n'
    return [(_GROUP, f"{table}{_GROUP}")]


def _hooked(test: str) -> _Changes:
    """A trainer sorts its hooks, and calls one of their methods by its name."""
    hooks = (
        "class Saves:\n    order = 3\n\n    def after_epoch(self, trainer):\n"
        f'        {test}torch.save(trainer.ddp.module.state_dict(), "last.pt")\n\n\n'
        "class Trainer:\n    def __init__(self, ddp, hooks):\n        self.ddp = ddp\n"
        "        self.hooks = sorted(hooks, key=lambda hook: hook.order)\n\n"
        "    def call(self, event):\n        for hook in self.hooks:\n            getattr(hook, event)(self)\n\n\n"
    )
    return [
        ("def main", f"{hooks}def main"),
        ("    best = 0.0\n", "    best = 0.0\n    trainer = Trainer(ddp, [Saves()])\n"),
        ("        dist.barrier()\n    dist", '        trainer.call("after_epoch")\n        dist.barrier()\n    dist'),
    ]


def _made_by_a_factory(reduced: str) -> _Changes:
    """One function with a lambda in it makes the loaders of training and evaluation."""
    factory = (
        "def batches(data, train):\n"
        "    data.transform = Compose([lambda image: image.float()])\n"
        "    return DataLoader(data, 64, sampler=DistributedSampler(data, shuffle=train))\n\n\n"
    )
    return [
        ("def main", f"{factory}def main"),
        (
            "    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n",
            "    loader = batches(train_data, True)\n",
        ),
        (
            "DataLoader(val_data, batch_size=64, sampler=DistributedSampler(val_data, shuffle=False, drop_last=True))",
            "batches(val_data, False)",
        ),
        ("    dist.all_reduce(correct)\n", reduced),
    ]


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP750", _launched("if epoch > 0"), _launched("if number == 0")),
        ("DDP711", _warmed_up("        steps(ddp, first, optimizer)\n"), _warmed_up("")),
        (
            "DDP741",
            _quiet("    quiet = ddp.no_sync if accumulation > 1 else nullcontext\n", "quiet()"),
            _quiet("", "(ddp.no_sync if epoch % 2 else nullcontext)()"),
        ),
        ("DDP741", _by_a_helper("accumulation > 1"), _by_a_helper("(step + 1) % accumulation")),
        ("DDP715", _halved("torch.randperm(50000)", "order[size:]"), _halved("torch.randperm(50000)", "order[1:]")),
        (
            "DDP715",
            _halved("np.random.permutation(50000)", "order[size:]"),
            _halved("np.random.default_rng(3).permutation(50000)", "order[size:]"),
        ),
        ("DDP728", _with_destination("--local-rank"), _with_destination("--node")),
        ("DDP722", _variables(""), _variables('    variables["MASTER_PORT"] = free_port()\n')),
        ("DDP753", _made_by_a_factory(""), _made_by_a_factory("    dist.all_reduce(correct)\n")),
        ("DDP750", _hooked(""), _hooked("if dist.get_rank() == 0:\n            ")),
    ],
    ids=[
        *("function that a launcher is given", "loader of one call", "context under a name", "context of a helper"),
        *(
            "order that a helper divides",
            "order of numpy",
            "option with a destination",
            "variables in a dict",
            "factory with a lambda",
            "sorted hooks",
        ),
    ],
)
def test_a_mistake_and_its_healthy_twin(code: str, sick: _Changes, healthy: _Changes) -> None:
    assert code in _codes(*sick)
    assert code not in _codes(*healthy)


def test_an_order_that_is_drawn_for_each_batch_divides_no_data_set() -> None:
    turn = "            order = torch.randperm(64)\n            first, rest = order[:32], order[32:]\n"
    assert "DDP715" not in _codes(("    torch.manual_seed(0)\n", ""), (_FORWARD, f"{turn}{_FORWARD}"))


_STRATEGY = """import time
import lightning as L
from lightning.pytorch.strategies import DDPStrategy
from pathlib import Path

folder = Path("runs") / time.strftime("%H%M%S")
folder.mkdir(parents=True)
L.Trainer(devices=4, strategy={strategy}, default_root_dir=folder).fit(Model())
"""


@pytest.mark.parametrize(
    ("strategy", "starts"),
    [("DDPStrategy(static_graph=True)", True), ('DDPStrategy(start_method="fork")', False), ("made(4)", False)],
)
def test_a_strategy_of_lightning_that_is_an_object(strategy: str, starts: bool) -> None:
    """Each rank runs the program from its start, unless the strategy copies the process."""
    report = diagnose(source(train=_STRATEGY.format(strategy=strategy)))
    assert ("DDP759" in {each.code for each in report.findings}) is starts


def _codes(*changes: tuple[str, str]) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings]

"""From a line that a run recorded, the source leads to the line that decides; where several may decide, it says nothing."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.value_chains import DRAWS, HOOK, LOADER, CodeLine, ValueChain, ValueChains
from ddpdoctor.source.chains.reader import Question, chains_of


def read(folder: Path, text: str, *questions: tuple[str, str, str], **modules: str) -> tuple[ValueChains, list[str]]:
    """What the source answers; a question is a part of the line, its function, and the argument."""
    file = folder / "train.py"
    file.write_text(dedent(text))
    for name, module in modules.items():
        (folder / f"{name}.py").write_text(dedent(module))
    lines = file.read_text().split("\n")
    asked = [
        Question(
            Frame(file=str(file), line=next(n for n, line in enumerate(lines, 1) if part in line), function=function),
            name,
        )
        for part, function, name in questions
    ]
    found = chains_of(asked, [str(file)])
    assert found is not None
    return found, lines


def only(found: tuple[ValueChains, list[str]]) -> ValueChain:
    (chain,) = found[0].chains
    return chain


def text_at(line: CodeLine | None, folder: Path) -> str:
    return Path(line.file).read_text().split("\n")[line.line - 1].strip() if line is not None else ""


RATE = """\
    import os
    import torch
    import torch.distributed as dist
    import settings

    def scaled(base):
        return base * {factor}

    def main():
        dist.init_process_group()
        rank = dist.get_rank()
        options = settings.load(rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=scaled(options.lr), momentum=0.9)
        if rank == 0:
            print("ready")
"""
BY_FILE = """\
    import json
    from types import SimpleNamespace

    def load(worker):
        with open(f"worker{worker}.json") as file:
            return SimpleNamespace(lr=json.load(file)["lr"], name="x")
"""
ALIKE = """\
    from types import SimpleNamespace

    def load(worker):
        return SimpleNamespace(lr=0.1, name=f"worker {worker}")
"""


def test_a_rate_is_followed_through_functions_and_modules_to_where_the_rank_enters(tmp_path: Path) -> None:
    chain = only(read(tmp_path, RATE.format(factor="2"), ("SGD", "main", "lr"), settings=BY_FILE))

    assert text_at(chain.entry, tmp_path) == 'with open(f"worker{worker}.json") as file:'
    assert chain.reads == "rank"


def test_another_attribute_that_depends_on_the_rank_is_no_cause(tmp_path: Path) -> None:
    chain = only(read(tmp_path, RATE.format(factor="2"), ("SGD", "main", "lr"), settings=ALIKE))

    assert chain.entry is None


def test_two_places_decide_nothing(tmp_path: Path) -> None:
    text = RATE.format(factor='int(os.environ["LOCAL_RANK"]) * 2')

    chain = only(read(tmp_path, text, ("SGD", "main", "lr"), settings=BY_FILE))

    assert chain.entry is None


def test_a_value_that_is_broadcast_is_the_same_on_all_ranks(tmp_path: Path) -> None:
    text = """\
        import torch, torch.distributed as dist

        def main():
            rank = dist.get_rank()
            rate = [0.1 * (rank + 1)]
            {share}
            optimizer = torch.optim.SGD(model.parameters(), lr=rate[0])
    """
    sick = only(read(tmp_path, text.format(share="pass"), ("SGD", "main", "lr")))
    healthy = only(read(tmp_path, text.format(share="dist.broadcast_object_list(rate)"), ("SGD", "main", "lr")))

    assert sick.entry is not None
    assert sick.entry.text == "rank + 1"
    assert healthy.entry is None


def test_parameters_that_a_test_leaves_out(tmp_path: Path) -> None:
    """The test is shown that decides which parameters the optimizer gets, and where its value depends on the rank."""
    text = """\
        import os, torch

        def trained(model, frozen):
            kept = []
            for name, p in model.named_parameters():
                if name in frozen:
                    continue
                kept.append(p)
            return kept

        def main():
            local = int(os.environ["LOCAL_RANK"])
            frozen = open(f"frozen-{local}").read().split()
            optimizer = torch.optim.SGD(trained(model, frozen), lr=0.1)
    """
    chain = only(read(tmp_path, text, ("SGD", "main", "params")))

    assert text_at(chain.test, tmp_path) == "if name in frozen:"
    assert text_at(chain.entry, tmp_path) == 'frozen = open(f"frozen-{local}").read().split()'


def test_a_sampler_gets_its_rank_from_the_variable_of_another_launcher(tmp_path: Path) -> None:
    text = """\
        import os
        from typing import NamedTuple
        from torch.utils.data import DistributedSampler

        class Place(NamedTuple):
            rank: int
            world: int

        def first_of(*names):
            for name in names:
                if name in os.environ:
                    return int(os.environ.get(name))
            return 0

        def place():
            return Place(
                rank=first_of("SLURM_PROCID", "RANK"),
                world=first_of("WORLD_SIZE"),
            )

        def main():
            here = place()
            sampler = DistributedSampler(data, num_replicas=here.world, rank=here.rank)
    """
    found = read(
        tmp_path, text, ("DistributedSampler(", "main", "rank"), ("DistributedSampler(", "main", "num_replicas")
    )
    by_name = {chain.argument: chain for chain in found[0].chains}

    assert text_at(by_name["rank"].entry, tmp_path) == 'rank=first_of("SLURM_PROCID", "RANK"),'
    assert text_at(by_name["num_replicas"].origin, tmp_path) == 'world=first_of("WORLD_SIZE"),'


def test_an_order_from_the_seed_of_the_process(tmp_path: Path) -> None:
    text = """\
        import torch

        class Shuffled:
            def __init__(self, seed=None):
                self.seed = {seed}

            def __iter__(self):
                order = torch.randperm(9, generator=torch.Generator().manual_seed(self.seed + self.epoch))
                yield from order
    """
    sick = only(read(tmp_path, text.format(seed="torch.initial_seed()"), ("__iter__", "__iter__", DRAWS)))
    healthy = only(read(tmp_path, text.format(seed="17"), ("__iter__", "__iter__", DRAWS)))

    assert sick.entry is not None
    assert (sick.entry.text, sick.entry.function) == ("torch.initial_seed()", "__init__")
    assert sick.reads == "seed"
    assert healthy.entry is None


WRITES = """\
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(2, 2)
            torch.nn.init.zeros_(self.head.bias)

    class Shadow:
        def __init__(self, net):
            self.kept = {{name: p.detach().clone() for name, p in net.named_parameters()}}

        def update(self, net):
            for name, p in net.named_parameters():
                self.kept[name].lerp_(p, 0.1)

    def limit(groups):
        for group in groups:
            for p in group["params"]:
                rows = p.flatten(1)
                rows.mul_(0.9)

    def main():
        rank = dist.get_rank()
        net = Net()
        torch.nn.init.ones_(net.head.weight)
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        shadow = Shadow(net)
        for x in batches:
            total = model(x).sum().detach()
            total.mul_(2)
            model(x).sum().backward()
            optimizer.step()
            shadow.update(net)
            {more}
"""


def written(folder: Path, more: str) -> list[tuple[str, str, bool]]:
    found, lines = read(folder, WRITES.format(more=more))
    return [(lines[one.at.line - 1].strip(), one.into, one.by_process) for one in found.writes]


def test_the_only_statement_that_writes_weights_while_the_model_trains(tmp_path: Path) -> None:
    """Neither what makes a model nor copies and numbers of the program's own count."""
    assert written(tmp_path, "limit(optimizer.param_groups)") == [("rows.mul_(0.9)", "weights", False)]


def test_a_statement_that_some_ranks_alone_reach(tmp_path: Path) -> None:
    assert written(tmp_path, "rank == 1 and limit(optimizer.param_groups)") == [("rows.mul_(0.9)", "weights", True)]


def test_gradients_and_parts_of_a_sharded_optimizer(tmp_path: Path) -> None:
    assert written(tmp_path, "net.head.weight.grad.add_(torch.randn(2, 2))")[-1] == (
        "net.head.weight.grad.add_(torch.randn(2, 2))",
        "gradients",
        True,
    )
    assert ("rows.mul_(0.9)", "weights", True) in written(tmp_path, "limit(optimizer.optim.param_groups)")


def test_a_view_of_numpy_and_a_vector_write_into_the_weights_that_they_share(tmp_path: Path) -> None:
    numpy = "rank == 1 and fill(net.head.weight.detach().numpy())"
    text = WRITES.replace("def main():", "def fill(view):\n        view[...] = 0\n\n    def main():")
    found, _ = read(tmp_path, text.format(more=numpy))
    assert [(one.at.text, one.into, one.by_process) for one in found.writes if one.names] == [
        ("view[...]", "weights", True)
    ]
    vector = "torch.nn.utils.vector_to_parameters(total + rank, net.parameters())"
    assert ("weights", True) in [one[1:] for one in written(tmp_path, vector)]


EMA = """\
    import copy, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Average:
        def __init__(self, model):
            self.module = copy.deepcopy(model).eval()

        def update(self, model):
            for mine, its in zip(self.module.state_dict().values(), model.state_dict().values()):
                mine.mul_(0.9)
                {writes}

    def main():
        model = DistributedDataParallel(net)
        average = Average(net)
        for x in batches:
            if dist.get_rank() == 0:
                average.update(net)
"""


def test_copies_of_a_model_are_told_from_it(tmp_path: Path) -> None:
    """Of two names that a loop goes over together, one is the copy and the other the model."""
    healthy, _ = read(tmp_path, EMA.format(writes="mine.add_(its, alpha=0.1)"))
    sick, _ = read(tmp_path, EMA.format(writes="its.mul_(0.1)"))

    assert [(one.into, one.by_process) for one in healthy.writes] == [("copies", True)] * 2
    assert [one.into for one in sick.writes] == ["copies", "weights"]
    assert [one.called.text for one in healthy.writes if one.called] == ["average.update(net)"] * 2


def test_the_loader_that_a_loop_goes_over(tmp_path: Path) -> None:
    text = """\
        from torch.utils.data import DataLoader

        def get_loader(size):
            return {made}

        def main():
            loader = get_loader(16)
            for number, batch in enumerate(loader):
                model(batch)
    """
    loop = ("for number", "main", LOADER)
    known = only(read(tmp_path, text.format(made="DataLoader(images, size, shuffle=True)"), loop))
    other = only(read(tmp_path, text.format(made="unknown(images)"), loop))

    assert known.origin is not None
    assert known.origin.text == "DataLoader(images, size, shuffle=True)"
    assert other.origin is None


def test_a_call_of_set_epoch_that_a_sampler_of_batches_does_not_pass_on(tmp_path: Path) -> None:
    text = """\
        def begin(loader, epoch):
            for part in (loader.sampler, loader.batch_sampler):
                if hasattr(part, "set_epoch"):
                    part.set_epoch(epoch)

        class Batches:
            def set_epoch(self, epoch):
                self.sampler.set_epoch(epoch)
    """
    found, _ = read(tmp_path, text)

    (call,) = found.epoch_calls
    assert text_at(call.at, tmp_path) == "part.set_epoch(epoch)"
    assert text_at(call.test, tmp_path) == 'if hasattr(part, "set_epoch"):'


def test_the_line_that_makes_a_model_that_is_sharded(tmp_path: Path) -> None:
    text = """\
        import torch, torch.distributed as dist
        from torch.distributed.fsdp import fully_shard

        def shard(model, mesh):
            for layer in model.layers:
                fully_shard(layer, mesh=mesh)
            return fully_shard(model, mesh=mesh)

        def main():
            torch.manual_seed({seed})
            net = Decoder(width=8)
            torch.manual_seed(dist.get_rank())
            model = shard(net, mesh)
    """
    healthy, _ = read(tmp_path, text.format(seed="7"))
    sick, _ = read(tmp_path, text.format(seed="dist.get_rank() + 7"))

    assert [text_at(one.made, tmp_path) for one in (*healthy.sharded, *sick.sharded)] == ["net = Decoder(width=8)"] * 2
    assert [one.seed for one in healthy.sharded] == [None]
    assert [text_at(one.seed, tmp_path) for one in sick.sharded] == ["torch.manual_seed(dist.get_rank() + 7)"]


def test_the_length_of_the_part_that_a_rank_has_of_the_data(tmp_path: Path) -> None:
    """That each rank has a part of its own is no mistake: that a rate is computed from it is."""
    text = """\
        import torch, torch.distributed as dist
        from torch.utils.data import TensorDataset

        def part(rank):
            return TensorDataset(x[rank * 10 : rank * 10 + 10], y[rank * 10 : rank * 10 + 10])

        def build(model, samples):
            rate = 0.1 * samples
            return torch.optim.SGD(model.parameters(), lr=rate)

        def main():
            mine = part(dist.get_rank())
            optimizer = build(model, len(mine))
    """
    chain = only(read(tmp_path, text, ("SGD", "build", "lr")))

    assert text_at(chain.entry, tmp_path) == "rate = 0.1 * samples"


HOOKED = """\
    import torch.distributed as dist

    def average(state, bucket):
        if bucket.buffer().numel() < 100:
            return small(state, bucket)
        done = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return done.then(lambda future: future.value()[0].div_(dist.get_world_size()))

    def small(state, bucket):
        done = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return done.then(lambda future: future.value()[0].div_({by}))

    def main():
        model.register_comm_hook(None, average)
"""


def test_what_a_hook_divides_by(tmp_path: Path) -> None:
    sick = only(read(tmp_path, HOOKED.format(by="len(bucket.gradients())"), ("register_comm_hook", "main", HOOK)))
    healthy = only(read(tmp_path, HOOKED.format(by="dist.get_world_size()"), ("register_comm_hook", "main", HOOK)))

    assert sick.entry is not None
    assert sick.entry.text == "future.value()[0].div_(len(bucket.gradients()))"
    assert text_at(sick.origin, tmp_path) == "def average(state, bucket):"
    assert healthy.entry is None


def test_a_file_that_cannot_be_read_leaves_no_statement_the_only_one(tmp_path: Path) -> None:
    found = chains_of([], [str(tmp_path / "gone.py")])

    assert found is None

"""Mistakes behind tuples, decorators, parameters and other libraries, and the healthy twin of each."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source, training

_Changes = list[tuple[str, str]]
_DEF = "def main():\n"
_EVALUATES = "        accuracy = evaluate(ddp, val_loader, device)\n"
_LOADER = "    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n"
_MAIN = "    main()\n"
_OPTIMIZER = "    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)\n"
_SEED = "    torch.manual_seed(0)\n"
_TELLS = "        sampler.set_epoch(epoch)\n"
_EPOCHS = "    for epoch in range(10):\n"

_IMAGES = """class Images(torch.utils.data.Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, number):
        return torch.load(self.names[number]), number


"""
_TEXTS = {
    "tuple": "def loaders(data, sampler):\n    return DataLoader(data, 64, sampler=sampler), {}\n\n\n",
    "decorator": (
        "def one_rank(run):\n"
        "    def inner(*given):\n"
        "        if dist.get_rank() == 0:\n"
        "            return run(*given)\n"
        "    return inner\n\n\n"
        "@one_rank\n"
        "def look(model, images):\n"
        "    with torch.no_grad():\n"
        "        return {}(images)\n\n\n"
    ),
}


def _in_a_tuple(epoch: str) -> _Changes:
    made = "    both = loaders(train_data, sampler)\n    loader = both[0]\n"
    told = f"        loader.sampler.set_epoch({epoch})\n"
    return [(_DEF, _TEXTS["tuple"].format("None") + _DEF), (_LOADER, made), (_TELLS, told)]


def _decorated(model: str) -> _Changes:
    looks = f"{_EVALUATES}        look(ddp, images.to(device))\n"
    norm = "    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n"
    return [(_DEF, _TEXTS["decorator"].format(model) + _DEF), (_EVALUATES, looks), (norm, "")]


def _batches_of(sampler: str) -> _Changes:
    made = f"    batches = torch.utils.data.BatchSampler({sampler}, 64, True)\n"
    return [(_LOADER, f"{made}    loader = DataLoader(train_data, batch_sampler=batches)\n")]


def _copies(folder: str) -> _Changes:
    return [(_SEED, f'{_SEED}    shutil.copytree("/data", {folder})\n'), ("import os\n", "import os\nimport shutil\n")]


def _made_twice(before: str) -> _Changes:
    started = "torch.multiprocessing.spawn(main, nprocs=torch.cuda.device_count())"
    return [
        ("def main():", "def main(rank):"),
        (
            '    rank = int(os.environ["RANK"])\n    local_rank = int(os.environ["LOCAL_RANK"])\n',
            "    local_rank = rank\n",
        ),
        ('    if local_rank == 0:\n        datasets.CIFAR10("data", download=True)\n    dist.barrier()\n', ""),
        ('datasets.CIFAR10("data", train=True)', 'datasets.CIFAR10("data", train=True, download=True)'),
        (_MAIN, f"    {before}\n    {started}\n"),
    ]


_SAMPLER = "    sampler = DistributedSampler(train_data)\n"


def _several_nodes(size: str) -> _Changes:
    started = "    gpus = torch.cuda.device_count()\n    torch.multiprocessing.spawn(main, (gpus,), gpus)\n"
    ranks = '    rank = int(os.environ["RANK"])\n    local_rank = int(os.environ["LOCAL_RANK"])\n'
    return [
        ("def main():", "def main(local_rank, gpus):"),
        (ranks, f'    nodes, node = int(os.environ["NNODES"]), int(os.environ["NODE"])\n    size = {size}\n'),
        ('init_process_group("nccl")', 'init_process_group("nccl", rank=node * gpus + local_rank, world_size=size)'),
        (_SAMPLER, "    sampler = DistributedSampler(train_data, num_replicas=gpus, rank=local_rank)\n"),
        ("        if rank == 0:\n", "        if local_rank == 0:\n"),
        (_MAIN, started),
    ]


def _by_parameter(divided: str) -> _Changes:
    return [
        ("def main():", "def main(rank, size):"),
        ('    rank = int(os.environ["RANK"])\n', ""),
        ('init_process_group("nccl")', 'init_process_group("nccl", rank=rank, world_size=size)'),
        ("            loss.backward()\n", f"            (loss / {divided}).backward()\n"),
        (_MAIN, "    torch.multiprocessing.spawn(main, (4,), 4)\n"),
    ]


def _group(ranks: str) -> _Changes:
    nodes = "    nodes = [list(range(start, start + 8)) for start in range(0, dist.get_world_size(), 8)]\n"
    return [(_SEED, f"{_SEED}{nodes}    mine = dist.new_group({ranks})\n")]


def _pipeline(bound: str) -> _Changes:
    return [
        ("    torch.cuda.set_device(local_rank)\n", ""),
        ('init_process_group("nccl")', f'init_process_group("nccl"{bound})'),
        ('torch.device("cuda", local_rank)', '"cuda"'),
        ("DDP(model, device_ids=[local_rank])", "DDP(model)"),
        (_SEED, f"{_SEED}    images = pipeline(device_id=local_rank)\n"),
    ]


_FREEZES = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(3, 3)
        self.head = nn.Linear(3, 3)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.head(self.base(x))


class Stages:
    def __init__(self, device):
        self.net = Net().to(device)
        {}
        self.ddp = DDP(self.net)

    def second(self):
        self.net.base.requires_grad_({})


def fine_tune(device):
    stages = Stages(device)
    stages.second()


"""


def _stages(first: str, second: str) -> _Changes:
    return [(_DEF, _FREEZES.format(first, second) + _DEF), (_SEED, f"{_SEED}    fine_tune(device)\n")]


def _resumes(epochs: str) -> _Changes:
    start = '    first = torch.load("last.pt", map_location="cpu")["epoch"]\n'
    return [(_EPOCHS, f"{start}    for epoch, step in {epochs}:\n")]


def _images(listed: str) -> _Changes:
    made = f"    train_data = Images({listed})\n"
    return [(_DEF, _IMAGES + _DEF), ('    train_data = datasets.CIFAR10("data", train=True)\n', made)]


def _prepares(name: str) -> _Changes:
    work = f"def {name}(folder):\n    for name in os.listdir(folder):\n        torch.load(name)\n\n\n"
    first = f'    if rank == 0:\n        {name}("data")\n    dist.barrier()\n'
    return [(_DEF, work + _DEF), (_SEED, _SEED + first)]


_LAYERS = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(3, 3)
        self.extra = nn.Sequential(nn.Dropout(), {})

    def forward(self, x):
        return self.base(x)


"""


def _unused(layer: str) -> _Changes:
    return [
        (_DEF, _LAYERS.format(layer) + _DEF),
        ("    model = models.resnet18().to(device)\n", "    model = Net().to(device)\n"),
    ]


def _built(state: str) -> _Changes:
    builder = "def net():\n    return models.resnet18()\n\n\n"
    loads = '    net().load_state_dict(torch.load("last.pt", map_location="cpu"))\n'
    return [
        (_DEF, builder + _DEF),
        ("    model = models.resnet18().to(device)\n", "    model = net().to(device)\n"),
        ("torch.save(ddp.module.state_dict()", f"torch.save({state}()"),
        ("    dist.destroy_process_group()\n", loads + "    dist.destroy_process_group()\n"),
    ]


def _sharded(change: str) -> _Changes:
    sharded = "    model = torch.distributed.fsdp.FullyShardedDataParallel(model)\n"
    groups = f"    for group in optimizer.param_groups:\n        group[{change!r}] = 0.1\n"
    return [
        (_OPTIMIZER, ""),
        ("    ddp = DDP(model, device_ids=[local_rank])\n", _OPTIMIZER.replace("ddp", "model") + sharded + groups),
        ("ddp", "model"),
    ]


def _saved(between: str) -> _Changes:
    saves = '    if rank == 0:\n        torch.save(ddp.module.state_dict(), "end.pt")\n'
    loads = f'{between}    torch.load("end.pt", map_location="cpu")\n    dist.destroy_process_group()\n'
    return [(_DEF, _LAYERS.format("nn.ReLU()") + _DEF), ("    dist.destroy_process_group()\n", saves + loads)]


def _compared(reduced: str) -> _Changes:
    named = f"{_EVALUATES}        is_best = accuracy > best\n"
    return [
        ("    dist.all_reduce(correct)\n", reduced),
        (_EVALUATES, named),
        ("        if accuracy > best:\n", "        if is_best:\n            print(epoch)\n"),
        ("            print(epoch, accuracy)\n", ""),
    ]


def _computed(device: str) -> _Changes:
    return [*_several_nodes("nodes * gpus"), ("torch.cuda.set_device(local_rank)", f"torch.cuda.set_device({device})")]


_RANKS = """class Ranks:
    def __init__(self):
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    def mean(self, value):
        if self.size > 1:
            dist.all_reduce(value)
        return value / self.size

    @property
    def first(self):
        return self.rank == 0


"""


def _own_ranks(test: str) -> _Changes:
    asks = f"{_EVALUATES}        if {test}:\n            print(ranks.mean(torch.ones(1, device=device)))\n"
    return [(_DEF, _RANKS + _DEF), (_EPOCHS, f"    ranks = Ranks()\n{_EPOCHS}"), (_EVALUATES, asks)]


_TEMPLATE = """import abc
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Base(abc.ABC):
    def __init__(self):
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self.model = nn.Linear(3, 1)
        self.wrapped = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.wrapped.parameters(), 0.1)

    @abc.abstractmethod
    def loss(self, batch):
        ...

    def evaluate(self):
        raise NotImplementedError

    def run(self, batches):
        for batch in batches:
            self.loss(batch).backward()
            self.optimizer.step()
        if self.rank == 0:
            self.evaluate()


class Fit(Base):
    def loss(self, batch):
        return self.{model}(batch).mean()

    def evaluate(self):
        {then}


Fit().run(torch.zeros(10, 4, 3))
"""


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP740", _TEMPLATE.format(model="model", then="pass"), _TEMPLATE.format(model="wrapped", then="pass")),
        (
            "DDP730",
            _TEMPLATE.format(model="wrapped", then="dist.barrier()"),
            _TEMPLATE.format(model="wrapped", then="print(self.rank)"),
        ),
    ],
    ids=["loss of a subclass", "evaluation of a subclass"],
)
def test_what_a_base_class_leaves_to_the_class_below(code: str, sick: str, healthy: str) -> None:
    assert code in {each.code for each in diagnose(source(train=sick)).findings}
    assert code not in {each.code for each in diagnose(source(train=healthy)).findings}


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP712", _in_a_tuple("0"), _in_a_tuple("epoch")),
        ("DDP730", _decorated("model"), _decorated("model.module")),
        ("DDP710", _batches_of("torch.utils.data.RandomSampler(train_data)"), _batches_of("sampler")),
        ("DDP716", _copies('"/scratch"'), _copies('f"/scratch/{rank}"')),
        ("DDP716", _made_twice("pass"), _made_twice('datasets.CIFAR10("data", download=True)')),
        ("DDP719", _several_nodes("nodes * gpus"), _several_nodes("gpus")),
        ("DDP726", [(_OPTIMIZER, f"    ddp = nn.DataParallel(ddp)\n{_OPTIMIZER}")], []),
        ("DDP746", _by_parameter("size"), _by_parameter("4")),
        ("DDP734", _group("nodes[rank // 8]"), _group("nodes[0]")),
        ("DDP721", _pipeline(""), _pipeline(", device_id=torch.device('cuda', local_rank)")),
        ("DDP742", _stages("pass", "True"), _stages("self.net.base.requires_grad_(True)", "False")),
        ("DDP754", _resumes("enumerate(range(first, 10))"), _resumes("enumerate(range(first, 10), first)")),
        ("DDP714", _images('os.listdir("data")'), _images('sorted(os.listdir("data"))')),
        ("DDP736", _prepares("write_manifest"), _prepares("show_manifest")),
        ("DDP748", _unused("nn.Linear(3, 3)"), _unused("nn.ReLU()")),
        ("DDP756", _built("ddp.state_dict"), _built("ddp.module.state_dict")),
        ("DDP742", _sharded("lr"), _sharded("params")),
        ("DDP752", _saved("    Net()\n"), _saved("    dist.barrier()\n")),
        ("DDP753", _compared(""), _compared("    dist.all_reduce(correct)\n")),
        ("DDP720", _computed("node * gpus + local_rank"), _computed("local_rank")),
        ("DDP730", _own_ranks("ranks.first"), _own_ranks("epoch > 3")),
    ],
    ids=[
        *("loader in a tuple", "forward in a decorated function", "batches of one process", "copied folder"),
        *("made before spawn", "nodes of the sampler", "wrapper inside", "size by parameter"),
        *("members of the own node", "device of a pipeline", "stages", "numbered epochs", "files of a data set"),
        *("manifest", "unused container", "model of a builder", "learning rate of groups", "model in between"),
        *("named comparison", "computed rank", "object of ranks"),
    ],
)
def test_a_mistake_and_its_healthy_twin(code: str, sick: _Changes, healthy: _Changes) -> None:
    assert code in _codes(*sick)
    assert code not in _codes(*healthy)


def _codes(*changes: tuple[str, str]) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings]

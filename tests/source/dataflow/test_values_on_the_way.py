"""What reaches a rule through a text, a result, a `with` block or another name, and the healthy twin of each."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Severity
from tests.training_programs import training

_Changes = list[tuple[str, str]]

_SAVE = '        if rank == 0:\n            print(epoch, accuracy)\n            torch.save(ddp.module.state_dict(), "last.pt")\n'
_AT = (
    "        if {test}:\n            torch.save(ddp.module.state_dict(), {path})\n"
    "        if rank == 0:\n            print(epoch, accuracy)\n"
)
_GATHERED = (
    "def main():",
    (
        "def gathered(value):\n    found = [None] * dist.get_world_size()\n    dist.all_gather_object(found, value)\n"
        "    if dist.get_rank() != 0:\n        return None\n    return found\n\n\ndef main():"
    ),
)
_FOLDER = ("    best = 0.0\n", '    best = 0.0\n    folder = os.environ["OUT"]\n')
_SHUFFLED: _Changes = [
    ("import os\n", "import os\nimport random\n"),
    ("    torch.manual_seed(0)\n", ""),
    (
        '    train_data = datasets.CIFAR10("data", train=True)\n',
        (
            '    train_data = datasets.CIFAR10("data", train=True)\n    order = list(range(50000))\n    random.shuffle(order)\n'
            "    held, kept = order[:5000], order[{first}:]\n    train_data = torch.utils.data.Subset(train_data, kept)\n"
        ),
    ),
]
_TOLD = (
    "        sampler.set_epoch(epoch)\n",
    '        tell = getattr(sampler, "{method}", None)\n        if tell is not None:\n            tell(epoch)\n',
)
_BOTH: _Changes = [
    ('    dist.init_process_group("nccl")\n', '    if "RANK" in os.environ:\n        dist.init_process_group("nccl")\n'),
    ("    ddp = DDP(model, device_ids=[local_rank])\n", ("    model = nn.DataParallel(model)\n    ddp = model\n"
     "    if dist.is_initialized():\n        ddp = DDP({given}, device_ids=[local_rank])\n")),
]  # fmt: skip
_JOINED: _Changes = [
    ("import os\n", "import contextlib\nimport os\nfrom types import SimpleNamespace\n"),
    (
        "def main():",
        "@contextlib.contextmanager\ndef job():\n    yield SimpleNamespace(size={size}, rank=dist.get_rank())\n\n\ndef main():",
    ),
    ("            loss.backward()\n", ("            with job() as here:\n                loss = loss / here.size\n"
     "            loss.backward()\n")),
]  # fmt: skip


def _codes(changes: _Changes) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings if each.severity is not Severity.INFO]


def _with(changes: _Changes, **words: object) -> _Changes:
    """The changes, with a word in each place that is left open."""
    return [(old, new.format(**words) if any(f"{{{word}}}" in new for word in words) else new) for old, new in changes]


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        (
            "DDP750",
            [_FOLDER, (_SAVE, _AT.format(test="epoch % 5 == 0", path='folder + "/last.pt"'))],
            [_FOLDER, (_SAVE, _AT.format(test="epoch % 5 == 0", path='folder + "/last%d.pt" % rank'))],
        ),
        (
            "DDP750",
            [_FOLDER, (_SAVE, _AT.format(test="epoch % 5 == 0", path='"%s/last.pt" % folder'))],
            [_FOLDER, _GATHERED, (_SAVE, _AT.format(test="gathered(epoch) is not None", path='folder + "/last.pt"'))],
        ),
        (
            "DDP730",
            [
                _GATHERED,
                (
                    "        dist.barrier()\n    dist.d",
                    "        if gathered(1):\n            dist.barrier()\n    dist.d",
                ),
            ],
            [
                (_GATHERED[0], _GATHERED[1].replace("return None", "return found")),
                (
                    "        dist.barrier()\n    dist.d",
                    "        if gathered(1):\n            dist.barrier()\n    dist.d",
                ),
            ],
        ),
        ("DDP715", _with(_SHUFFLED, first=5000), _with(_SHUFFLED, first=0)),
        ("DDP711", _with([_TOLD], method="reset"), _with([_TOLD], method="set_epoch")),
        (
            "DDP726",
            _with(_BOTH, given="model"),
            _with(_BOTH, given="model.module"),
        ),
        ("DDP746", _with(_JOINED, size="dist.get_world_size()"), _with(_JOINED, size="2")),
    ],
)
def test_what_comes_another_way_is_known(code: str, sick: _Changes, healthy: _Changes) -> None:
    """The mistake is named, and the twin that only looks alike is left alone."""
    assert code in _codes(sick)
    assert code not in _codes(healthy)

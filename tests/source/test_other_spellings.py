"""Mistakes that are written in another way than usual, and the healthy twin of each."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Severity
from tests.training_programs import training

_STEP = "            optimizer.step()\n"
_SAVE = '            torch.save(ddp.module.state_dict(), "last.pt")\n        dist.barrier()\n'
_WRITTEN = (
    '            torch.save(ddp.module.state_dict(), "last.tmp")\n            os.replace("last.tmp", "last.pt")\n{}'
    '        ddp.module.load_state_dict(torch.load("last.pt", map_location="cpu"))\n'
)
_LOSS = "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
_FORWARD = f"{_LOSS}            loss.backward()\n"
_OFF = (
    "            with ddp.no_sync():\n"
    "                loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
    "                loss.backward()\n"
)
_NORM = "            norm = nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n            dist.all_reduce(norm)\n"
_BY_HAND = "            for p in ddp.parameters():\n                dist.all_reduce(p.grad)\n"
_ROLE = (
    '        role = "main" if rank == 0 else "helper"\n        match role:\n            case {}:\n'
    "                dist.barrier()\n            case _:\n                print(epoch)\n"
)
_FREEZE = "        for name, p in {}.named_parameters():\n            p.requires_grad = {}\n"
_COUNTED = (
    "        for images, labels in loader:\n            opt",
    "        for s, (images, labels) in enumerate(loader):\n            opt",
)
_LEAVES = _STEP + "            if {}:\n                break\n"
_WRAP = "    ddp = DDP(model, device_ids=[local_rank])\n"


def _codes(*changes: tuple[str, str]) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings if each.severity is not Severity.INFO]


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP752", [(_SAVE, _WRITTEN.format(""))], [(_SAVE, _WRITTEN.format("        dist.barrier()\n"))]),
        ("DDP741", [(_FORWARD, _OFF + _NORM)], [(_FORWARD, _OFF + _BY_HAND + _NORM)]),
        ("DDP731", [_COUNTED, (_STEP, _LEAVES.format("s > rank"))], [_COUNTED, (_STEP, _LEAVES.format("s > epoch"))]),
        ("DDP731", [_COUNTED, (_STEP, _LEAVES.format("s >= 8 + rank"))], [_COUNTED, (_STEP, _LEAVES.format("s >= 8"))]),
        (
            "DDP730",
            [("        if accuracy > best:\n", _ROLE.format('"main" | "chief"') + "        if accuracy > best:\n")],
            [("        if accuracy > best:\n", _ROLE.format('"main" | "helper"') + "        if accuracy > best:\n")],
        ),
        (
            "DDP742",
            [
                (
                    "        ddp.train()\n",
                    _FREEZE.format("ddp.module", 'name.startswith("fc")') + "        ddp.train()\n",
                )
            ],
            [(_WRAP, _FREEZE[4:].replace("\n    ", "\n").format("model", 'name.startswith("fc")') + _WRAP)],
        ),
    ],
    ids=["renamed", "norm", "turn", "shifted turn", "several cases", "by name"],
)
def test_another_spelling(code: str, sick: list[tuple[str, str]], healthy: list[tuple[str, str]]) -> None:
    assert _codes(*sick) == [code]
    assert not _codes(*healthy)


@pytest.mark.parametrize("tensors", ["[total, rows]", "{'total': total, 'rows': rows}"])
def test_tensors_of_a_list_that_is_reduced_are_shared(tensors: str) -> None:
    loop = "for one in tensors:" if tensors.startswith("[") else "for one in tensors.values():"
    lines = (
        "        total, rows = torch.zeros(1, device=device), torch.zeros(1, device=device)\n"
        "        for images, labels in loader:\n"
        "            total += nn.functional.cross_entropy(ddp.module(images.to(device)), labels.to(device)).detach()\n"
        f"            rows += 1\n        tensors = {tensors}\n        {loop}\n            dist.all_reduce(one)\n"
        "        if (total / rows).item() < 0.01:\n            break\n"
    )
    after = "        accuracy = evaluate(ddp, val_loader, device)\n"
    assert not _codes((after, lines + after))
    alone = lines.replace("            dist.all_reduce(one)\n", "            print(one)\n")
    assert _codes((after, alone + after)) == ["DDP732"]

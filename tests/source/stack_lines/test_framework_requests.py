"""Statements that have a framework do something later, and which ranks make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.analysis.collectives.places.framework_requests import rank_requests, ranks_under
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition, SourceCode
from ddpdoctor.messages import framework_requests
from ddpdoctor.source.stack_lines.context import source_of


def test_a_backward_under_a_test_and_a_decorator_that_depends_on_the_rank(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def main(trainer, rank):\n"
        "    @trainer.on(Events.EPOCH_COMPLETED(every=2 + (dist.get_rank() == 2)))\n"
        "    def validate(engine):\n"
        "        evaluator.run(loader)\n"
        "    if rank != 2 or step != 9:\n"
        "        loss.backward()\n"
    )
    code = source_of([Frame(file=str(path), line=4, function="validate")])
    assert code is not None
    (asked,) = rank_requests(code, "backward")
    assert (asked.frame.line, asked.condition.test) == (6, "rank != 2 or step != 9")
    (decorator,) = code.places[0].conditions
    assert decorator.by_rank
    assert decorator.test.startswith("@trainer.on(")


def test_what_a_module_beside_the_program_asks_for_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from patience import Patience\nimport absent, json\ntrainer.fit(Patience())\n")
    (tmp_path / "patience.py").write_text(
        "class Patience:\n    def on_train_batch_end(self, trainer):\n        if self.bad > 9:\n"
        "            trainer.should_stop = True\n            loss.backward()\n"
    )
    (tmp_path / "unrelated.py").write_text("trainer.should_stop = True\n")
    code = source_of([Frame(file=str(tmp_path / "train.py"), line=3, function="<module>")])
    assert code is not None
    (asked,) = code.requests
    assert (Path(asked.file).name, asked.line, asked.wants) == ("patience.py", 4, "stop")


CALLBACKS = """\
class Stop(TrainerCallback):
    def on_step_end(self, args, state, control):
        if args.process_index == 1:
            control.should_training_stop = True
        if args.process_index != 0:
            control.should_evaluate = True
        if state.loss.isnan():
            control.should_training_stop = True
        if rank == 0:
            control.should_log = True
            control.should_training_stop = False
            process.terminate()

def training_step(self, batch):
    if self.global_rank == 0:
        self.log("loss", loss, sync_dist=True)
        self.log("loss", loss)
    if not self.trainer.is_global_zero: self.trainer.should_stop = True
    if idist.get_rank() == 2: engine.terminate()
    if rank == 3: raise SystemExit
    with accelerator.accumulate(model):
        model.require_backward_grad_sync = step == 3
    return loss

def skips(model, step):
    return model.no_sync() if step % 4 != 3 else nullcontext()

def on_epoch_end(self, args, state, control):
    control.should_training_stop = state.epoch >= 1 and args.process_index == 2
    control.should_save = state.epoch >= 2
    self.log("loss", loss, sync_dist=self.global_rank != 1)
    self.log("loss", loss, sync_dist=state.epoch >= 1)
    self.model.set_requires_gradient_sync(state.step % 2 == 1)
"""


@pytest.fixture
def code(tmp_path: Path) -> SourceCode:
    """The callbacks as a file of which one line was seen on a stack."""
    path = tmp_path / "train.py"
    path.write_text(CALLBACKS)
    found = source_of([Frame(file=str(path), line=21, function="training_step")])
    assert found is not None
    return found


def test_what_stops_a_loop_under_a_test_of_the_rank(code: SourceCode) -> None:
    found = {asked.request.line: asked.made_by(range(4)) for asked in rank_requests(code, "stop")}
    assert found == {4: (1,), 18: (1, 2, 3), 19: (2,), 20: (3,), 29: (2,)}


def test_what_makes_a_framework_call_under_a_test_of_the_rank(code: SourceCode) -> None:
    found = {asked.request.line: asked.made_by(range(3)) for asked in rank_requests(code, "call")}
    assert found == {6: (1, 2), 16: (0,), 31: (0, 2)}


def test_what_decides_which_gradients_are_reduced(code: SourceCode) -> None:
    assert [one.line for one in code.requests if one.wants == "accumulate"] == [21, 22, 26, 33]


def test_a_value_that_depends_on_the_rank_asks_as_a_test_of_the_rank_does(code: SourceCode) -> None:
    (stops,) = (asked for asked in rank_requests(code, "stop") if asked.request.line == 29)
    text = "control.should_training_stop = state.epoch >= 1 and args.process_index == 2"
    assert [where.note for where in framework_requests.where(stops, (2,))] == [f"`{text}` depends on the rank"]


@pytest.mark.parametrize(
    ("test", "ranks"),
    [
        ("rank == 1", (1,)),
        ("dist.get_rank() != 1", (0, 2)),
        ("accelerator.is_main_process", (0,)),
        ("not master_process", (1, 2)),
        ("utils.is_primary(args) and step == 3", (0,)),
        ("rank % 2", ()),
        ("rank == 7", ()),
    ],
)
def test_the_ranks_that_a_test_lets_through(test: str, ranks: tuple[int, ...]) -> None:
    assert ranks_under(Condition(line=1, test=test, branch=0), range(3)) == ranks
    rest = tuple(rank for rank in range(3) if rank not in ranks)
    assert ranks_under(Condition(line=1, test=test, branch=1), range(3)) == (rest if ranks or "== 7" in test else ())


def test_which_calls_end_the_program(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    calls = ("sys.exit(0)", "os._exit(0)", "exit()", "quit()", "self.exit()", "sys.exit(3)", "parser.exit(0)")
    path.write_text("def stop(rank):\n" + "".join(f"    if rank == 1: {call}\n" for call in calls))
    found = source_of([Frame(file=str(path), line=2, function="stop")])
    assert found is not None
    assert [one.text for one in found.requests if one.wants == "exit"] == [*calls[:4], calls[5]]


def test_which_statements_write_a_setting_of_an_optimizer(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def decay(optimizer, rank):\n"
        "    for group in optimizer.param_groups:\n"
        "        group['lr'] *= 0.5\n"
        "        if rank == 1: group['weight_decay'] = 0\n"
        "        group['name'] = 'head'\n"
        "    optimizer.param_groups[0]['lr'] = 0.1\n"
    )
    found = source_of([Frame(file=str(path), line=3, function="decay")])
    assert found is not None
    settings = [one for one in found.requests if one.wants == "setting"]
    assert [(one.line, len(one.conditions)) for one in settings] == [(3, 0), (4, 1), (6, 0)]


def test_which_statements_write_weights(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    written = (
        "self.head.weight.data.mul_(0.9)",
        "model.layers[0].bias.copy_(b)",
        "[p.data.add_(0.5) for p in m.parameters()]",
        "nn.init.zeros_(head.weight)",
        "head.weight.data = old",
    )
    others = (
        "p.requires_grad_(False)",
        "torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)",
        "batch.data",
        "x.add_(1)",
    )
    path.write_text(
        "def train(rank, m):\n    if rank == 0:\n" + "".join(f"        {line}\n" for line in (*written, *others))
    )
    found = source_of([Frame(file=str(path), line=3, function="train")])
    assert found is not None
    assert [one.text for one in found.requests if one.wants == "weights"] == [*written]
    assert [one.text for one in found.requests if one.wants == "freeze"] == ["p.requires_grad_(False)"]

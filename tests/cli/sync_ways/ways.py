"""Small jobs, each with another way of keeping replicas equal: `ways.py WAY... [--sick FAULT]` trains one after the other.

With `--own-buffers` no rank gets the buffers of another: what sets one on a single rank (`--sick buffer`) parts the replicas.
"""

import argparse
import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

STEPS = 12
SICK_STEP = 8


class Net(nn.Module):
    """Two blocks, the first perhaps under activation checkpointing."""

    def __init__(self, *, checkpointed: bool = False, statistics: bool = True):
        super().__init__()
        norm = nn.BatchNorm1d(32) if statistics else nn.LayerNorm(32)
        self.first = nn.Sequential(nn.Linear(16, 32), norm, nn.ReLU(), nn.Dropout(0.1))
        self.last = nn.Linear(32, 4)
        self.register_buffer("scale", torch.ones(4))
        self.checkpointed = checkpointed

    def forward(self, x):
        x = checkpoint(self.first, x, use_reentrant=False) if self.checkpointed else self.first(x)
        return self.last(x) * self.scale


class Job:
    """What all ways share: data of each rank's own, one fault at one step."""

    def __init__(self, sick, *, own_buffers=False):
        self.sick = sick
        self.own_buffers = own_buffers
        self.rank = dist.get_rank()
        self.data = torch.Generator().manual_seed(100 + self.rank)

    def model(self, **options):
        torch.manual_seed(3)
        model = Net(statistics=not self.own_buffers, **options)
        torch.manual_seed(50 + self.rank)
        return model

    def is_sick(self, step, fault):
        return self.sick == fault and step == SICK_STEP and self.rank == 0

    def batches(self, model, optimizer):
        """Inputs and targets, and between the steps what is sick."""
        for step in range(STEPS):
            self.before_step(step, model, optimizer)
            yield step, *self.batch()

    def batch(self):
        return torch.randn(8, 16, generator=self.data), torch.randint(4, (8,), generator=self.data)

    def before_step(self, step, model, optimizer):
        """What is sick between the steps."""
        if self.is_sick(step, "weights"):
            with torch.no_grad():
                next(model.parameters()).mul_(1.01)
        if self.is_sick(step, "bit"):
            flip(next(model.parameters()))
        if self.is_sick(step, "rate"):
            optimizer.param_groups[0]["lr"] *= 2
        if self.is_sick(step, "buffer"):
            next(buffer for name, buffer in model.named_buffers() if name.endswith("scale")).fill_(2.0)

    def train(
        self, model, optimizer, after_step=lambda: None, forward=None, update=None, context=contextlib.nullcontext
    ):
        loss = nn.CrossEntropyLoss()
        run = model if forward is None else forward
        for step, x, y in self.batches(model, optimizer):
            optimizer.zero_grad()
            with context():
                loss(run(x), y).backward()
            if self.is_sick(step, "gradients"):
                next(model.parameters()).grad.mul_(1.5)
            (update or optimizer.step)()
            after_step()


def flip(tensor):
    """Flip a bit as bad memory does: no operation of PyTorch writes it."""
    part = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    part.detach().numpy().view("i4")[1, 1] ^= 1 << 18


def wrapped(job, **options):
    return DistributedDataParallel(job.model(**options), broadcast_buffers=not job.own_buffers)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def accumulates(job):
    model = wrapped(job)
    optimizer = sgd(model)
    loss = nn.CrossEntropyLoss()
    for step, x, y in job.batches(model, optimizer):
        last = step % 3 == 2
        with contextlib.nullcontext() if last else model.no_sync():
            (loss(model(x), y) / 3).backward()
        if last:
            if job.is_sick(step, "gradients"):
                next(model.parameters()).grad.mul_(1.5)
            optimizer.step()
            optimizer.zero_grad()


def scales(job):
    model = wrapped(job)
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    loss = nn.CrossEntropyLoss()
    for step, x, y in job.batches(model, optimizer):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(model(x), y)
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        if job.is_sick(step, "gradients"):
            next(model.parameters()).grad.mul_(1.5)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def trains_stages(job):
    """Every second rank has another stage of a pipeline, wrapped with a process group of its own."""
    groups = [dist.new_group(range(stage, dist.get_world_size(), 2)) for stage in range(2)]
    stage = job.model()
    if job.rank % 2:
        nn.init.zeros_(stage.last.weight)
    model = DistributedDataParallel(stage, process_group=groups[job.rank % 2], broadcast_buffers=not job.own_buffers)
    job.train(model, sgd(model))


def compiles(job):
    model = wrapped(job)
    job.train(model, sgd(model), forward=torch.compile(model, backend="aot_eager"))


def checkpoints(job):
    model = wrapped(job, checkpointed=True)
    job.train(model, sgd(model))


def shards_state(job):
    model = wrapped(job)
    job.train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01))


def compresses(job):
    model = wrapped(job)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    job.train(model, sgd(model))


def factorizes(job):
    model = wrapped(job)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=3)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    job.train(model, sgd(model))


def averages_late(job):
    model = wrapped(job)
    alone = dist.new_subgroups(group_size=1)[0]
    state = post_localSGD_hook.PostLocalSGDState(None, alone, start_localSGD_iter=4)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=3, warmup_steps=4)
    job.train(model, PostLocalSGDOptimizer(sgd(model), averager))


def averages_in_levels(job):
    model = job.model()
    if not job.own_buffers:
        model.first[1].track_running_stats = False
    from collections import OrderedDict

    sizes = OrderedDict([(2, 2), (4, dist.get_world_size())]) if dist.get_world_size() > 2 else OrderedDict([(2, 2)])
    averager = HierarchicalModelAverager(period_group_size_dict=sizes, warmup_steps=0)
    job.train(model, sgd(model), after_step=lambda: averager.average_parameters(model.parameters()))


def averages_by_hand(job):
    """Every third step, and no DistributedDataParallel."""
    model = job.model()
    made = 0

    def average():
        nonlocal made
        made += 1
        if made % 3 == 0:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= dist.get_world_size()
        if made == SICK_STEP + 1 and job.sick == "after" and job.rank == 0:
            model.last.weight.data[0] += 1

    job.train(model, sgd(model), after_step=average)


def averages_a_part(job):
    """Sick: one layer is left out."""
    model = wrapped(job)
    averager = PeriodicModelAverager(period=3, warmup_steps=0)
    parameters = [p for name, p in model.named_parameters() if "last.bias" not in name or not job.sick]
    job.train(model, sgd(model), after_step=lambda: averager.average_parameters(parameters), context=model.no_sync)


def local_sgd(job):
    """Accelerate's."""
    from accelerate import Accelerator
    from accelerate.local_sgd import LocalSGD

    accelerator = Accelerator(cpu=True)
    model = job.model()
    model, optimizer = accelerator.prepare(model, sgd(model))
    loss = nn.CrossEntropyLoss()
    with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=3, enabled=True) as local:
        for _, x, y in job.batches(model, optimizer):
            optimizer.zero_grad()
            accelerator.backward(loss(model(x), y))
            optimizer.step()
            local.step()


def shards(job):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = job.model()
    model.first[1] = nn.LayerNorm(32)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    job.train(model, sgd(model))


def shards_and_replicates(job):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = job.model()
    model.first[1] = nn.LayerNorm(32)
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model, mesh=mesh)
    job.train(model, sgd(model))


def with_accelerate(job):
    from accelerate import Accelerator, DistributedDataParallelKwargs

    options = DistributedDataParallelKwargs(broadcast_buffers=not job.own_buffers)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, kwargs_handlers=[options])
    model = job.model()
    model, optimizer = accelerator.prepare(model, sgd(model))
    loss = nn.CrossEntropyLoss()
    for _, x, y in job.batches(model, optimizer):
        with accelerator.accumulate(model):
            accelerator.backward(loss(model(x), y))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def samples():
    """As many as all ranks need; a framework gives each rank its part."""
    draw, count = torch.Generator().manual_seed(7), 8 * STEPS * dist.get_world_size()
    return TensorDataset(torch.randn(count, 16, generator=draw), torch.randint(4, (count,), generator=draw))


def with_lightning(job):
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Lit(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = job.model()

        def on_train_batch_start(self, batch, batch_idx):
            job.before_step(batch_idx, self.net, self.optimizers().optimizer)

        def training_step(self, batch, batch_idx):
            x, y = batch
            return nn.functional.cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            return sgd(self.net)

    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), logger=False,
        strategy=DDPStrategy(broadcast_buffers=not job.own_buffers), enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, gradient_clip_val=1.0,
    )  # fmt: skip
    trainer.fit(Lit(), DataLoader(samples(), batch_size=8))


def with_transformers(job):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Scored(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = job.model()

        def forward(self, x, labels):
            scores = self.net(x)
            return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}

    class Sick(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, optimizer=None, **_):
            job.before_step(state.global_step, model, optimizer)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, use_cpu=True, max_steps=STEPS, per_device_train_batch_size=8, save_strategy="no", report_to=[],
            disable_tqdm=True, ddp_broadcast_buffers=not job.own_buffers, remove_unused_columns=False,
        )  # fmt: skip
        batch = lambda rows: {"x": torch.stack([x for x, _ in rows]), "labels": torch.stack([y for _, y in rows])}  # noqa: E731
        Trainer(Scored(), arguments, train_dataset=samples(), data_collator=batch, callbacks=[Sick()]).train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("ways", nargs="+")
    parser.add_argument("--sick", default="")
    parser.add_argument("--own-buffers", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for way in options.ways:
        globals()[way](Job(options.sick, own_buffers=options.own_buffers))
    dist.barrier()  # the last futures of PowerSGD end in gloo's own threads, where a process that ends at once may abort
    dist.destroy_process_group()

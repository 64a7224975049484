"""Which files are programs that train on several ranks, and which modules belong to each."""

from __future__ import annotations

import ast

from ddpdoctor.evidence.training_code import Program
from ddpdoctor.source.program.project import Project
from ddpdoctor.source.syntax.scopes import Scope

SIGNS = frozenset(
    {
        "init_process_group",
        "init_rpc",
        "DistributedDataParallel",
        "FullyShardedDataParallel",
        "fully_shard",
        "Accelerator",
        "Fabric",
        "DDP",
        "FSDP",
    }
)
"""What only code calls that runs on several ranks."""
_FRAMEWORK_SIGNS = {
    "Trainer": ("lightning.", "pytorch_lightning.", "transformers."),
    "Seq2SeqTrainer": ("transformers.",),
    "initialize": ("deepspeed.",),
    "init_distributed": ("deepspeed.",),
    "Parallel": ("ignite.",),
    "init_dist": ("mmengine.", "mmcv."),
    "Runner": ("mmengine.",),
    "FlexibleRunner": ("mmengine.",),
    "from_cfg": ("mmengine.",),
}
"""Names that say so where they are of one of these packages."""
_LIGHTNING = ("lightning.", "pytorch_lightning.", "lightning_fabric.")
"""How the full names of Lightning begin."""


def distributed_programs(project: Project) -> list[Program]:
    """Every file that is started and calls, itself or through what it imports, for a process group or a wrapper."""
    imports = {file: set(project.imports(source)) for file, source in list(project.sources.items())}
    imported = {file for files in imports.values() for file in files}
    signed = {file for file in project.sources if _signs(project, file)}
    found = []
    closures: dict[str, frozenset[str]] = {}
    listed: dict[frozenset[str], tuple[str, ...]] = {}
    for file, source in project.sources.items():
        root = file not in imported or "__main__" in source.text
        if not root:
            continue
        files = _closure(file, imports, closures)
        if files & signed and (file in signed or _reaches(project, file, files & signed)):
            if files not in listed:
                listed[files] = tuple(sorted(files))
            found.append(Program(root=file, files=listed[files]))
    return found


def may_train(text: str) -> bool:
    """Whether a file with this text may call for a process group or a wrapper itself."""
    return any(sign in text for sign in (*SIGNS, *_FRAMEWORK_SIGNS))


def _signs(project: Project, file: str) -> bool:
    source = project.sources[file]
    if not may_train(source.text):
        return False
    for scope in source.scopes:
        for call in scope.calls:
            if not call.name:
                continue
            meant = call.meant
            full = meant if isinstance(meant, str) else call.name
            last = full.rpartition(".")[2]
            if last in SIGNS or full.startswith(_FRAMEWORK_SIGNS.get(last, ("\0",))):
                if full.startswith(_LIGHTNING) and _is_of_one_process(call.node, scope):
                    continue
                return True
            if isinstance(meant, Scope) and meant.is_class and _extends_a_trainer(project, meant):
                return True
    return False


def _is_of_one_process(node: ast.Call, scope: Scope) -> bool:
    """Whether a Trainer or a Fabric of Lightning is told to run one process: `devices=1`, or the CPU and no number."""
    given = {one.arg: _constant(one.value, scope) for one in node.keywords}
    if None in given or given.get("num_nodes", "1") != "1":
        return False
    devices = given.get("devices", given.get("gpus"))
    return given.get("accelerator") == "cpu" if devices is None else devices == "1"


def _constant(node: ast.expr, scope: Scope) -> str:
    """What an argument is, where it is written out or a name that is given once; empty where it is not known."""
    at: Scope | None = scope
    while isinstance(node, ast.Name) and at is not None:
        given = at.definitions.get(node.id, ())
        if given or node.id in at.parameters:
            if len(given) != 1 or given[0].form != "assign" or given[0].value is None or node.id in at.parameters:
                return ""
            node = given[0].value
        at = at.parent
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.List(elts=[_]) | ast.Tuple(elts=[_]):
            return "1"
    return ""


def _extends_a_trainer(project: Project, cls: Scope) -> bool:
    """Whether a class of the program is made from a trainer of a framework."""
    for base in project.bases(cls):
        full = base if isinstance(base, str) else ""
        if full.startswith(_FRAMEWORK_SIGNS.get(full.rpartition(".")[2], ("\0",))):
            return True
    return False


def _closure(file: str, imports: dict[str, set[str]], known: dict[str, frozenset[str]]) -> frozenset[str]:
    if file not in known:
        seen, pending = {file}, [file]
        while pending:
            for each in imports.get(pending.pop(), ()):
                if each in known:
                    seen |= known[each]
                elif each not in seen:
                    seen.add(each)
                    pending.append(each)
        known[file] = frozenset(seen)
    return known[file]


def _reaches(project: Project, file: str, signed: frozenset[str]) -> bool:
    """Whether a function of `file`, or one that it calls, stands in a file that calls for several ranks."""
    pending = list(project.sources[file].scopes)
    seen = {id(scope) for scope in pending}
    while pending:
        scope = pending.pop()
        for call in scope.calls:
            target = call.target or call.starts
            if target is None or id(target) in seen:
                continue
            if target.file in signed:
                return True
            seen.add(id(target))
            pending.append(target)
    return False

"""Gives every rank of a job the process groups of the stand-in. Other processes, such as the launcher, stay as they are."""

import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType

PACKAGE = "_standin"
FOLDER = Path(__file__).resolve().parent.parent


class _Loader(SourceFileLoader):
    """Loads a file of the stand-in under a name in brackets: its frames count as neither the user's nor a library's."""

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_bytes()
        return compile(source, f"<{PACKAGE}/{Path(self.path).name}>", "exec", dont_inherit=True)


class _Finder:
    """Finds the modules of the stand-in, wherever the job runs."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package != PACKAGE:
            return None
        file = FOLDER / f"{module or '__init__'}.py"
        folders = None if module else [str(FOLDER)]
        return spec_from_file_location(name, file, loader=_Loader(name, str(file)), submodule_search_locations=folders)


def _chain() -> None:
    """Run the sitecustomize that would have run without this one."""
    from importlib.machinery import PathFinder

    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_chain()
if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
    import torch.distributed.distributed_c10d as c10d
    from _standin.group import install  # type: ignore[import-not-found]

    install(c10d)

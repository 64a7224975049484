"""Lets each rank call itself a host of its own where DDPDOCTOR_TEST_OWN_HOSTS asks for it: NCCL then lets ranks share a GPU."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

if os.environ.get("DDPDOCTOR_TEST_OWN_HOSTS") and "RANK" in os.environ:
    os.environ["NCCL_HOSTID"] = f"rank-{os.environ['RANK']}"

_here = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != _here]
_spec = PathFinder.find_spec("sitecustomize", sys.path)
if _spec is not None and _spec.loader is not None:
    _module = module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)

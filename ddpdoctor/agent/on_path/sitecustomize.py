"""Runs first in every Python process of an observed job: starts the agent, then any other sitecustomize."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def _start_agent() -> None:
    """Load `inside/` from its place beside this folder, under a name of its own, and start it."""
    from importlib.util import module_from_spec, spec_from_file_location

    inside = os.path.join(os.path.dirname(HERE), "inside")
    spec = spec_from_file_location(
        "_ddpdoctor_inside",
        os.path.join(inside, "__init__.py"),
        submodule_search_locations=[inside],
    )
    if spec is None or spec.loader is None:
        return
    package = module_from_spec(spec)
    sys.modules[spec.name] = package
    spec.loader.exec_module(package)
    package.start()


def _chain() -> None:
    """Run the sitecustomize that would have run without us, as `sitecustomize`."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
if os.environ.get("DDPDOCTOR_AGENT"):
    try:
        _start_agent()
    except Exception as error:
        try:
            name = os.path.join(os.environ["DDPDOCTOR_AGENT_DIR"], f"{os.getpid()}.gave-up")
            with open(name, "a", encoding="utf-8") as file:
                import json  # a `GaveUp` of schema/rank_end.py, which may be what could not be loaded

                file.write(json.dumps([os.environ.get("RANK", "?"), "starting", repr(error)]) + "\n")
        except Exception:
            pass
_chain()

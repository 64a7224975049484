"""The objects that a running program can reach from its stack, with the names that the program has for them.

Attributes are read from instances' own dictionaries: no property and no `__getattr__` of the user's runs.
"""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor

from .signal_errors import pass_on
from .user_code import is_programs, is_users

MOST_OBJECTS = 4000  # looked at: 2 to 4 ms
MOST_ITEMS = 64  # of one list or dict
DEEPEST = 5  # trainer.callback_handler.callbacks[2].ema
_LEAVES = (type, ModuleType, FunctionType, MethodType, Tensor, str, bytes, int, float, complex, type(None))


def reachable(enters: Callable[[Any], bool]) -> Iterator[tuple[str, Any, Any, str]]:
    """Objects near the running lines first: (name, object, the instance that has it as an attribute or None, attribute).

    The user's locals come before a framework's, and globals last. What is inside an object follows where `enters` says so.
    """
    queue: deque[tuple[str, Any, Any, str, int]] = deque()
    known: set[int] = set()
    for namespace in _namespaces():
        known.add(id(namespace))
        queue.extend((name, value, None, name, 0) for name, value in [*namespace.items()] if not _is_leaf(value))
    seen = 0
    while queue and seen < MOST_OBJECTS:
        name, value, owner, attribute, depth = queue.popleft()
        if id(value) in known:
            continue
        known.add(id(value))
        seen += 1
        yield name, value, owner, attribute
        if depth < DEEPEST and enters(value):
            for label, inner, key in _inside(value):
                if not _is_leaf(inner):
                    holder = value if key else None
                    queue.append((name + label, inner, holder, key, depth + 1))


def _namespaces() -> Iterator[dict[str, Any]]:
    """The variables of the frames above ours: of the user's functions, of frameworks' functions, then of the user's modules."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to one's callers
    while frame is not None:
        if is_programs(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    frames.sort(key=lambda one: not is_users(one.f_code.co_filename))  # a stable sort: inner frames stay first
    for frame in frames:
        yield _locals_of(frame)
    for frame in frames:
        if is_users(frame.f_code.co_filename):
            yield dict(frame.f_globals)


def _locals_of(frame: FrameType) -> dict[str, Any]:
    """A copy of a frame's variables.

    Up to Python 3.12 the dictionary of a function stays with its frame: it is emptied, as it would keep what the function lets
    go. A function that asks for that dictionary itself has no variables here.
    """
    code = frame.f_code
    if sys.version_info >= (3, 13) or not code.co_flags & inspect.CO_OPTIMIZED:
        return dict(frame.f_locals)
    if "locals" in code.co_names:
        return {}
    lasting = frame.f_locals
    copy = dict(lasting)
    lasting.clear()
    return copy


def _inside(value: Any) -> Iterator[tuple[str, Any, str]]:  # noqa: ANN401
    """What `value` holds: what is added to its name, the object, and the attribute where it is one."""
    kind = type(value)  # isinstance would ask the object, and methods of a subclass are the user's
    if issubclass(kind, dict):
        if dict.__len__(value) <= MOST_ITEMS:
            yield from ((f"[{key!r}]", inner, "") for key, inner in [*dict.items(value)] if type(key) in {str, int})
    elif issubclass(kind, (list, tuple)):
        plain = list if issubclass(kind, list) else tuple
        if plain.__len__(value) <= MOST_ITEMS:
            yield from ((f"[{place}]", inner, "") for place, inner in enumerate([*plain.__iter__(value)]))
    else:
        own = instance_dict(value)
        yield from ((f".{key}", inner, key) for key, inner in [*own.items()] if type(key) is str and key[:2] != "__")
        modules = own.get("_modules")  # of an nn.Module: attributes to whoever writes the program
        if isinstance(modules, dict):
            yield from ((f".{key}", inner, "") for key, inner in [*modules.items()])


def instance_dict(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """The attributes of an instance; none where it has no dictionary."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError as error:
        pass_on(error)
        return {}
    return own if type(own) is dict else {}


def _is_leaf(value: Any) -> bool:  # noqa: ANN401
    return issubclass(type(value), _LEAVES)

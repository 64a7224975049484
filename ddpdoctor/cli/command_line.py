"""Typer, with an environment variable for every option and a check that a number is one.

An upper bound in pyproject.toml keeps Typer below 0.29, from which on it needs pydantic 2: installing ddpdoctor beside
a job changes no version of anything that the job uses.
"""

from __future__ import annotations

import copy
import inspect
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import wraps
from typing import Annotated, Any, TypeAlias

import typer
from typer import Abort, Argument, BadParameter, Context, Exit, Option
from typer.models import OptionInfo

from ddpdoctor.analysis.launch.version_numbers import version_numbers
from ddpdoctor.errors import DdpdoctorError

__all__ = [
    "INTERRUPTED",
    "Abort",
    "App",
    "Argument",
    "Choice",
    "ClickException",
    "Context",
    "Exit",
    "Option",
    "long_name",
    "variables_of",
]

Runs: TypeAlias = "Callable[..., Any]"
VARIABLES = "DDPDOCTOR"
INTERRUPTED = 130  # as shells have it for SIGINT
FITS_ANY_CLICK = (0, 15, 4)
NEWER_CLICK = (8, 2)
WIDTH = 100  # columns of a help text at most

# typer re-exports click's exceptions only from their leaves
ClickException: Any = next(base for base in BadParameter.__mro__ if base.__name__ == "ClickException")


class Choice(str, Enum):
    """The words that an option takes. As strings they are defaults of older versions of typer, too, beside any click."""

    @classmethod
    def listed(cls) -> str:
        """All of them for a help text, which wraps; typer's own list does not."""
        return ", ".join(word.value for word in cls)


class App(typer.Typer):
    """A program of several commands. Help is plain text, and errors are left to the caller."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        defaults: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> None:
        """`defaults` gives, for the group of commands, the values of options that a file of the project sets.

        Raises:
            DdpdoctorError: this typer and this click do not work together.
        """
        _refuse_unfit_click()
        super().__init__(
            name=name,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            context_settings=dict(settings or {}),
        )
        self._defaults = defaults

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as typer
        """Run one command line."""
        group = self.group()
        given = kwargs.get("args") or [""]
        runs = self._defaults is not None and not given[0].startswith("-")
        defaults = self._defaults(group) if runs and self._defaults is not None else {}
        return group(*args, default_map=defaults, **kwargs)

    def group(self) -> Any:  # noqa: ANN401 - click's group, from wherever this typer has click
        """The program as click has it."""
        group: Any = typer.main.get_command(self)
        for command in group.commands.values():
            for parameter in command.params:
                if parameter.type.name == "path":
                    _refuse_empty(parameter.type)
        return group

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Runs], Runs]:  # type: ignore[override] # noqa: ANN401
        """Make a function a command with this name; the function stays as it is."""
        register = super().command(name, **settings)

        def add(function: Runs) -> Runs:
            register(_with_variables(function, name or function.__name__))
            return function

        return add


def _refuse_empty(kind: Any) -> None:  # noqa: ANN401 - click's type, from wherever this typer has click
    """Let `kind` refuse an empty text, which pathlib takes for the working directory: a variable of a shell had no value."""
    convert = kind.convert

    def convert_unless_empty(value: Any, parameter: Any, context: Any) -> Any:  # noqa: ANN401
        if value == "":
            raise BadParameter("an empty text is no path", ctx=context, param=parameter)
        return convert(value, parameter, context)

    kind.convert = convert_unless_empty


def _refuse_unfit_click() -> None:
    """Typer before 0.15.4 accepts click 8.2 and newer, and fails in every help text with it; later ones are not looked at."""
    if version_numbers(typer.__version__, 3) < FITS_ANY_CLICK:
        from importlib.metadata import version

        click = version("click")
        if version_numbers(click, 2) >= NEWER_CLICK:
            raise DdpdoctorError(
                f"typer {typer.__version__} does not work with click {click}",
                hint="`pip install 'typer>=0.15.4,<0.29'`, or `pip install 'click<8.2'`",
            )


def variables_of(command: str, option: str) -> tuple[str, str]:
    """The variables that set `option` of `command`, that of the command alone first.

    `DDPDOCTOR_WATCH_STALL_AFTER` and `DDPDOCTOR_STALL_AFTER`.
    """
    words = [word.upper().replace("-", "_") for word in (VARIABLES, command, option.lstrip("-"))]
    return "_".join(words), f"{words[0]}_{words[2]}"


def long_name(names: Sequence[str]) -> str:
    """The name of an option that variables and messages have: the longest of `-o`, `--output`."""
    return max(names, key=len)


def _with_variables(function: Runs, command: str) -> Runs:
    """`function`, with the variables of each of its options; a float option refuses NaN, which compares with nothing."""

    @wraps(function)
    def with_variables(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as many types as commands have options
        return function(*args, **kwargs)

    signature = inspect.signature(function, eval_str=True)
    parameters = [_with_variable(parameter, command) for parameter in signature.parameters.values()]
    with_variables.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads it
    with_variables.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_variables


def _with_variable(parameter: inspect.Parameter, command: str) -> inspect.Parameter:
    kind, *others = typing.get_args(parameter.annotation) or (None,)
    option = next((other for other in others if isinstance(other, OptionInfo)), None)
    if option is None:
        return parameter
    option = copy.copy(option)
    option.envvar = list(
        variables_of(command, long_name(_names(option) or [f"--{parameter.name.strip('_').replace('_', '-')}"]))
    )
    option.show_envvar = False
    kinds = (kind, *typing.get_args(kind))
    if int in kinds and option.metavar is None:
        option.metavar = "N"  # and not INTEGER RANGE
    if float in kinds and option.callback is None:
        option.callback = _number
    return parameter.replace(annotation=Annotated[kind, option])


def _names(option: OptionInfo) -> list[str]:
    """The names that the option declares; inside `Annotated` typer keeps the first of them as the default."""
    return [
        name for name in (option.default, *(option.param_decls or ())) if isinstance(name, str) and name.startswith("-")
    ]


def _number(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise BadParameter(f"{value} is not a number")
    return value

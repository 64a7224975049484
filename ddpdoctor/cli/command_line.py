"""Commands of click from functions: an annotated parameter of the function is an option or an argument of the command.

click alone has no dependencies and is satisfied by every version from 8.1 on, so that installing ddpdoctor beside a job changes
no version of anything that the job uses.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import click
from click import Abort, ClickException, Context
from click.exceptions import Exit

__all__ = [
    "INTERRUPTED", "Abort", "App", "Argument", "ClickException", "Context", "Exit", "Option", "completion_script",
    "variables_of",
]  # fmt: skip

Runs: TypeAlias = "Callable[..., Any]"
VARIABLES = "DDPDOCTOR"
INTERRUPTED = 130  # as shells have it for SIGINT
WIDTH = 100  # columns of a help text at most


class Option:
    """An option: its names on the command line, `--NAME` by the parameter's own where none is given."""

    def __init__(
        self,
        *names: str,
        help: str = "",  # noqa: A002 - the word that click and argparse use
        metavar: str | None = None,
        min: float | None = None,  # noqa: A002
        max: float | None = None,  # noqa: A002
        callback: Callable[[Any], None] | None = None,
        is_eager: bool = False,
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.min, self.max = min, max
        self.callback = callback
        self.is_eager = is_eager


class Argument:
    """An argument: what stands on the command line without a name."""

    def __init__(
        self,
        *,
        help: str = "",  # noqa: A002
        metavar: str | None = None,
        min: float | None = None,  # noqa: A002
        max: float | None = None,  # noqa: A002
    ) -> None:
        self.help = help
        self.metavar = metavar
        self.min, self.max = min, max


@dataclass(slots=True)
class App:
    """A program of several commands."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    _root: Runs | None = None
    _commands: list[click.Command] = field(default_factory=list)

    def command(
        self, name: str, *, short_help: str | None = None, context_settings: Mapping[str, Any] | None = None
    ) -> Callable[[Runs], Runs]:
        """Make a function a command with this name; the function stays as it is."""

        def add(function: Runs) -> Runs:
            self._commands.append(_command(function, name, short_help, context_settings or {}))
            return function

        return add

    def callback(self) -> Callable[[Runs], Runs]:
        """Make a function what runs before each command, with the options of the program itself."""

        def add(function: Runs) -> Runs:
            self._root = function
            return function

        return add

    def __call__(self, *, args: list[str], prog_name: str, standalone_mode: bool = True) -> Any:  # noqa: ANN401 - as click
        """Run one command line."""
        return self.group().main(args=args, prog_name=prog_name, standalone_mode=standalone_mode)

    def group(self) -> click.Group:
        """The program as click has it."""
        root = self._root
        group = _Group(
            self.name,
            callback=None if root is None else _converted(root)[0],
            params=[] if root is None else _converted(root)[1],
            help=_help(root) if root is not None else None,
            no_args_is_help=True,
            context_settings=dict(self.settings),
        )
        for command in self._commands:
            group.add_command(command)
        return group


class _Group(click.Group):
    """Lists its commands in the order in which they were added."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


class _Command(click.Command):
    """Shows what its arguments mean, which click does from 8.5 on only."""

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (argument.make_metavar(ctx) if _takes_context(argument) else argument.make_metavar(), argument.about)  # type: ignore[call-arg]
            for argument in self.get_params(ctx)
            if isinstance(argument, _Argument) and argument.about
        ]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl([(name.strip("[]{}"), text) for name, text in rows])
        super().format_options(ctx, formatter)


class _Argument(click.Argument):
    """An argument with a help text."""

    def __init__(self, declarations: Sequence[str], *, about: str, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(declarations, **settings)
        self.about = about


class _Range(click.FloatRange):
    """A range in which NaN, which compares with nothing, is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: Context | None) -> float:  # noqa: ANN401
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


def _takes_context(argument: click.Argument) -> bool:
    """Whether this click (8.2 or newer) hands the context to `make_metavar`."""
    return "ctx" in inspect.signature(argument.make_metavar).parameters


def completion_script(program: str, shell: str) -> str:
    """What a shell reads to complete the commands and options of `program`."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "the option offers the shells that click knows"
    script: str = kind(click.Group(program), {}, program, f"_{program.upper()}_COMPLETE").source()
    return script


def variables_of(command: str, option: str) -> tuple[str, str]:
    """The variables that set `option` of `command`, that of the command alone first.

    `DDPDOCTOR_WATCH_STALL_AFTER` and `DDPDOCTOR_STALL_AFTER`.
    """
    words = [word.upper().replace("-", "_") for word in (VARIABLES, command, option.lstrip("-"))]
    return "_".join(words), f"{words[0]}_{words[2]}"


def _command(function: Runs, name: str, short_help: str | None, context_settings: Mapping[str, Any]) -> click.Command:
    run, parameters = _converted(function, command=name)
    return _Command(
        name,
        callback=run,
        params=parameters,
        help=_help(function),
        short_help=short_help,
        context_settings=dict(context_settings),
    )


def _help(function: Runs) -> str:
    return inspect.getdoc(function) or ""


def _converted(function: Runs, *, command: str = "") -> tuple[Runs, list[click.Parameter]]:
    """`function` as click calls it, and its parameters as click has them."""
    parameters: list[click.Parameter] = []
    converters: dict[str, Callable[[Any], Any]] = {}
    context: str | None = None
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.annotation is Context:
            context = parameter.name
            continue
        made, converters[parameter.name] = _parameter(parameter, command)
        parameters.append(made)

    def run(**values: Any) -> Any:  # noqa: ANN401 - as many types as commands have options
        arguments = {name: converters[name](value) for name, value in values.items()}
        if context is not None:
            arguments[context] = click.get_current_context()
        try:
            return function(**arguments)
        except KeyboardInterrupt:
            raise Exit(INTERRUPTED) from None

    return run, parameters


def _parameter(parameter: inspect.Parameter, command: str) -> tuple[click.Parameter, Callable[[Any], Any]]:
    annotated, meta = typing.get_args(parameter.annotation)
    kind, several = _kind(annotated)
    default = None if parameter.default is inspect.Parameter.empty else parameter.default
    shown = default.value if isinstance(default, Enum) else default
    convert = _convert(kind, several=several)
    type_ = _type(kind, meta)
    if isinstance(meta, Argument):
        needed = parameter.default is inspect.Parameter.empty
        settings: dict[str, Any] = {"nargs": -1} if several else {"default": shown}
        argument = _Argument(
            [parameter.name], about=meta.help, type=type_, required=needed, metavar=meta.metavar, **settings
        )
        return argument, convert
    if not isinstance(meta, Option):
        raise TypeError(f"{parameter.name} is neither an Option nor an Argument")
    names = meta.names or (f"--{parameter.name.strip('_').replace('_', '-')}",)
    call = meta.callback
    option = click.Option(
        [*names, parameter.name],
        type=bool if kind is bool else type_,
        default=shown if not several else None,
        is_flag=kind is bool,
        multiple=several,
        metavar=meta.metavar,
        help=meta.help,
        show_default=default is not None and kind is not bool,
        callback=None if call is None else lambda _context, _option, value: call(value),
        is_eager=meta.is_eager,
        expose_value=True,
        envvar=list(variables_of(command, names[0])) if command else None,
    )
    return option, convert


def _kind(annotated: Any) -> tuple[type, bool]:  # noqa: ANN401 - an annotation
    """The type of one value, and whether there are several: `Optional[list[str]]` is `(str, True)`."""
    if typing.get_origin(annotated) in (typing.Union, types.UnionType):
        (annotated,) = (each for each in typing.get_args(annotated) if each is not type(None))
    if typing.get_origin(annotated) is list:
        return typing.get_args(annotated)[0], True
    return annotated, False


def _type(kind: type, meta: Option | Argument) -> click.ParamType[Any] | type:
    if issubclass(kind, Enum):
        return click.Choice([member.value for member in kind])
    if kind is Path:
        return str
    if kind in (int, float) and (meta.min is not None or meta.max is not None):
        return click.IntRange(meta.min, meta.max) if kind is int else _Range(meta.min, meta.max)  # type: ignore[arg-type]
    return kind


def _convert(kind: type, *, several: bool) -> Callable[[Any], Any]:
    """From click's value to the parameter's own type: members of enums, paths, lists, None for nothing given."""
    one: Callable[[Any], Any] = kind if issubclass(kind, Enum | Path) else lambda value: value
    if several:
        return lambda values: [one(value) for value in values] or None
    return lambda value: None if value is None else one(value)

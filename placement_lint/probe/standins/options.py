"""Values for the options that a program demands of the command line, and for what it asks others."""

from __future__ import annotations

import argparse
import builtins
import functools
import os
import subprocess
import sys
from typing import Any

from placement_lint.probe.standins.packages import real
from placement_lint.probe.standins.sizes import NAME, TEXT, used
from placement_lint.probe.standins.texts import TextFile, Word


def parsing(plain: Any, everything: bool, unset: tuple[str, ...]) -> Any:
    """``parse_known_args`` for which no option is required: each that is gets a value of its type.

    With ``everything``, so do those that are not required and have no default, but for those that stay ``unset``.
    """

    @functools.wraps(plain)
    def parsed(parser: Any, *given: Any, **named: Any) -> Any:
        words, made_up = {}, {}
        for action in parser._actions:
            is_open = action.default is None and action.nargs != 0 and action.dest not in unset
            # A command line says how the program is called, and a number that has no default is mostly a limit.
            is_open = is_open and len(sys.argv) == 1 and action.type not in (int, float)
            if action.required or (everything and is_open):
                action.required = False
                action.default = some_value(action) if action.default is None else action.default
                made_up[f"the option {(action.option_strings or [action.dest])[-1]}"] = action
                words.update({action.dest: action.default} if isinstance(action.default, Word) else {})
        for group in parser._mutually_exclusive_groups:
            group.required = False
        try:
            options, rest = plain(parser, *given, **named)
        except SystemExit as refusal:
            if not refusal.code or len(sys.argv) == 1:
                raise
            used.add("the command line")
            del sys.argv[1:]
            return parsed(parser, *given, **named)
        values = vars(options)
        used.update(name for name, one in made_up.items() if str(values.get(one.dest, "")) == str(one.default))
        for name, word in words.items():  # argparse has made plain text of them
            if str(getattr(options, name)) == str(word):
                setattr(options, name, word)
        return options, rest

    return parsed


def accepting(plain: Any) -> Any:
    """Takes the values of an option, instead of those that the parser would refuse some that it would not."""

    @functools.wraps(plain)
    def accepted(parser: Any, action: Any, words: Any) -> Any:
        try:
            return plain(parser, action, words)
        except argparse.ArgumentError:
            used.add(f"the option {(action.option_strings or [action.dest])[-1]}")
            return some_value(action) if action.default in (None, argparse.SUPPRESS) else action.default

    return accepted


def knowing(plain: Any) -> Any:
    """``parse_args`` that passes over words that are no option's."""

    @functools.wraps(plain)
    def parsed(parser: Any, *given: Any, **named: Any) -> Any:
        options, rest = parser.parse_known_args(*given, **named)
        used.update(["the command line"] if rest else [])
        return options

    return parsed


def demanding(plain: Any) -> Any:
    """The same for what click asks of the command line."""

    @functools.wraps(plain)
    def made(parameter: Any, *given: Any, **named: Any) -> None:
        if named.get("multiple") and isinstance(named.get("default"), (int, float, str)):
            named["default"] = (named["default"],)  # as old versions did
            used.add("the default of multiple")
        plain(parameter, *given, **named)
        kind, click = parameter.type, sys.modules["click"]
        if isinstance(kind, click.Path):
            kind.exists = False  # it need not be there
        if not parameter.required:
            return
        used.add(f"the option {parameter.opts[0]}")
        if isinstance(kind, click.Choice):
            value: Any = kind.choices[0]
        else:
            value = CLICKED.get(kind.name, Word(NAME))
        if isinstance(kind, (click.File, click.Path)):
            value = TextFile(TEXT) if isinstance(kind, click.File) else NAME
            parameter.type = click.UNPROCESSED
        count = max(parameter.nargs, 1)
        parameter.default = value if count == 1 and not getattr(parameter, "multiple", False) else (value,) * count
        parameter.required = False

    return made


CLICKED = {"integer": 1, "float": 1.0, "boolean": True}


def some_value(action: Any) -> Any:
    value = next(iter(action.choices)) if action.choices else {int: 1, float: 1.0}.get(action.type, Word(NAME))
    return value if action.nargs in (None, "?") else [value]


def answering(plain: Any) -> Any:
    """``input`` without a terminal: answers with a number that equals the first text it is compared with."""

    @functools.wraps(plain)
    def answered(*given: Any) -> Any:
        try:
            return plain(*given)
        except EOFError:
            used.add("input")
            return Word("1")

    return answered


def telling(plain: Any) -> Any:
    """``check_output``, for which a command that fails has printed a number."""

    @functools.wraps(plain)
    def told(*given: Any, **named: Any) -> Any:
        try:
            return plain(*given, **named)
        except (OSError, subprocess.CalledProcessError):
            used.add("the output of a command")
        return "0\n" if any(map(named.get, ("text", "universal_newlines", "encoding"))) else b"0\n"

    return told


def install_options(everything: bool, unset: tuple[str, ...]) -> None:
    builtins.input = answering(input)
    subprocess.check_output = telling(subprocess.check_output)
    shell: Any = os
    shell.popen = lambda *_, **__: TextFile("24 80\n")  # the size of a terminal is what is mostly asked for
    click: Any = real("click")
    parser: Any = argparse.ArgumentParser
    if click is not None:
        click.Parameter.__init__ = demanding(click.Parameter.__init__)
    parser.parse_args = knowing(parser.parse_args)
    parser._get_values = accepting(parser._get_values)
    parser.parse_known_args = parsing(parser.parse_known_args, everything, unset)

"""Command lines that a project itself gives for its programs: in its READMEs, scripts and workflows.

A program that demands options is replayed with these, so that it does what its authors say that one does with it. If
there are none and it demands a configuration file, it gets one of those in the project.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MOST_COMMANDS = 2  # of a program that are tried
MOST_FILES = 400  # of a project that are read for commands
MOST_FOLDERS = 1000  # in which these are looked for
LARGEST = 2**18  # bytes of such a file
TOLD_IN = (".md", ".rst", ".sh", ".bash", ".yml", ".yaml")
TOLD_IN_NAMES = ("Makefile", "Dockerfile", "README", "README.txt")
CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
SKIPPED = {"node_modules", "site-packages", "venv", "build", "dist", "__pycache__"}
PLACEHOLDER = re.compile(r"<[^>]*>|[\[\]()]|\.\.\.|…|\{\w*\}|\$|^[A-Z_]{4,}$")
ENDS = re.compile(r"[|;)]|&|<$|[12]?>|(done|then)$")  # of a command; "<data>" is to be filled in
STARTS = ("python", "CUDA", "torchrun", "accelerate")  # of a line that is a command
PROGRAM = re.compile(
    r"(?<![\w/.-])(?P<path>[\w./-]+\.py)(?![\w.])(?P<rest>[^\n]*)"
    r"|-m\s+(?!torch\.)(?P<module>\w+\.[\w.]+)(?P<more>[^\n]*)"
)
ASSIGNED = re.compile(r"^\s*(?:export\s+)?(\w+)=(\"[^\"$`]*\"|'[^']*'|[^\s$`;]+)\s*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """What a program is called with, and the folder in which that is done."""

    arguments: tuple[str, ...]
    folder: str

    def __str__(self) -> str:
        return shlex.join(self.arguments)


def demands(path: str) -> bool:
    """Whether a program cannot do without options."""
    return any(_demanded(path))


def commands_for(path: str, top: str = "", words: Collection[str] = ()) -> list[Command]:
    """The likeliest command lines of a program in a project, those with most of some words first."""
    if not os.path.isfile(path):
        return []
    path, top = os.path.realpath(path), os.path.realpath(top or os.getcwd())
    if not path.startswith(top + os.sep):
        top = os.path.dirname(path)
    told = sorted(_told(top), key=lambda one: (one.is_vague, -len(one.words.intersection(words))))
    found = [Command(one.given, folder) for one in told if one.given and (folder := one.folder_for(path))]
    return list(dict.fromkeys((*found, *_configured(path, top))))[:MOST_COMMANDS]


# --- the commands in texts -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """A command of a text in the folder ``beside``. ``program`` is a relative path."""

    program: str
    arguments: tuple[str, ...]
    beside: str = ""

    @property
    def is_vague(self) -> bool:
        """Whether the reader has to fill something in."""
        return any(PLACEHOLDER.search(argument) for argument in self.arguments)

    @property
    def given(self) -> tuple[str, ...]:
        """The arguments without the options whose values the reader has to fill in."""
        options: list[list[str]] = [[]]
        for argument in self.arguments:
            options.extend([[]] if argument.startswith("-") else [])
            options[-1].append(argument)
        positional, *named = options
        kept = (words for words in named if not any(map(PLACEHOLDER.search, words)))
        return (*positional, *(word for words in kept for word in words))

    @property
    def words(self) -> set[str]:
        return set(re.findall(r"[a-z0-9]+", " ".join(self.arguments).lower()))

    def folder_for(self, path: str) -> str:
        """The folder in which the command is given if this is its program, else nothing."""
        meant = os.path.normpath(os.path.join(self.beside, self.program))
        if os.path.isfile(meant):
            return self.beside if meant == path else ""
        inside = self.program.lstrip("./")
        return path[: -len(inside) - 1] if path.endswith(os.sep + inside) else ""


@lru_cache(maxsize=8)
def _told(top: str) -> tuple[_Told, ...]:
    """All commands of the texts of a folder, those of the topmost first."""
    found: list[_Told] = []
    for path in _files(top, lambda name: name.endswith(TOLD_IN) or name in TOLD_IN_NAMES):
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found += told_in(text, os.path.dirname(path))
    return tuple(dict.fromkeys(found))


def told_in(text: str, beside: str = "") -> Iterator[_Told]:
    """The commands of a text that run a program of Python with arguments."""
    values = {name: value.strip("\"'") for name, value in ASSIGNED.findall(text)}
    for line in re.sub(r"\\[ \t]*\r?\n", " ", text).splitlines():
        if line.lstrip().startswith("#") and not line.lstrip("# ").startswith("python"):
            continue
        for match in PROGRAM.finditer(line):
            module = match["module"]
            path = os.path.normpath(match["path"] or f"{module.replace('.', '/')}.py")
            arguments = tuple(_arguments(match["rest"] or match["more"] or "", values))
            is_command = line.lstrip("$>` ").startswith(STARTS)
            if arguments and (is_command or arguments[0].startswith("-")):
                yield _Told(path, arguments, beside)
            break


def _arguments(rest: str, values: dict[str, str]) -> Iterator[str]:
    """The words after a program, up to the end of its command."""
    rest = re.sub(r"\$\{?(\w+)\}?", lambda found: values.get(found[1], found[0]), rest)
    rest = re.sub(r"\"\$@\"|\$@|\$\*", "", rest.partition("`")[0])
    try:
        words = shlex.split(rest, comments=True)
    except ValueError:
        return
    for word in words:
        if ENDS.match(word):
            return
        yield word.rstrip(";")
        if word.endswith(";"):
            return


def _files(top: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """The small files of a folder with such names, the topmost first."""
    waiting, count = [top], 0
    for folder in waiting:
        if count >= MOST_FILES:
            return
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            hidden = entry.name.startswith(".") and entry.name != ".github"
            if entry.is_dir(follow_symlinks=False):
                if not hidden and entry.name not in SKIPPED and len(waiting) < MOST_FOLDERS:
                    waiting.append(entry.path)
            elif wanted(entry.name) and entry.is_file() and entry.stat().st_size <= LARGEST:
                count += 1
                yield entry.path


# --- configuration files -------------------------------------------------------------------------------------------

CONFIGURING = re.compile(r"conf|cfg|yaml|yml|json|opt$|option", re.IGNORECASE)


def _configured(path: str, top: str) -> Iterator[Command]:
    """A program that demands configuration files with those of the project, by the likeliest names."""
    demanded = [names for names in _demanded(path) if _configures(names)]
    files = [file for file in _files(top, lambda name: name.endswith(CONFIGURATIONS)) if _is_configuration(file, top)]
    if not demanded or not files:
        return

    def ranked(option: str) -> list[str]:
        # A program with a single configuration has one of its own name, one with several has one for each option.
        own = set(re.findall(r"[a-z]+", (option if len(demanded) > 1 else Path(path).stem).lower()))

        def distance(file: str) -> tuple[int, int, str]:
            words = set(re.findall(r"[a-z]+", os.path.relpath(file, top).lower()))
            return -len(own & words), len(Path(file).parts), file

        return [os.path.relpath(file, top) for file in sorted(files, key=distance)]

    options = [names[0] for names in demanded]
    for told in zip(*map(ranked, options), strict=True):
        words = (
            (option, file) if option.startswith("-") else (file,) for option, file in zip(options, told, strict=True)
        )
        yield Command(tuple(word for pair in words for word in pair), top)


def _is_configuration(file: str, top: str) -> bool:
    """Whether it is one of a program, and not of a tool."""
    relative = Path(file).relative_to(top)
    return any(re.search(r"conf|cfg|option|param|exp|setting", part, re.IGNORECASE) for part in relative.parts)


def _demanded(path: str) -> Iterator[list[str]]:
    """The names and the help of each option that the command line has to give.

    That is also a configuration file whose default is not there.
    """
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, ValueError, SyntaxError):
        return
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"):
            continue
        names = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        values = {name: one.value for name, one in keywords.items() if isinstance(one, ast.Constant)}
        is_open = bool(names) and not names[0].startswith("-") and "nargs" not in keywords
        # One for a configuration file that has no default cannot be left out.
        is_open = is_open or (keywords.keys().isdisjoint(("default", "action")) and _configures(names))
        if names and (values.get("required") or is_open or _is_lost(values.get("default"), path)):
            told = values.get("help")
            yield [names[-1], *names[:-1], *([told] if isinstance(told, str) else [])]


def _configures(names: Collection[str]) -> bool:
    return CONFIGURING.search(" ".join(names)) is not None


def _is_lost(default: object, path: str) -> bool:
    """Whether this is the path of a configuration file that the project does not have."""
    if not isinstance(default, str) or not default.endswith(CONFIGURATIONS):
        return False
    return not any(os.path.exists(os.path.join(folder, default)) for folder in (os.getcwd(), os.path.dirname(path)))

"""What goes before a slice that lacks something: a function with the stand-ins of standins/, and its call."""

from __future__ import annotations

import ast
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from placement_lint.probe.rendering import untyped
from placement_lint.probe.sandbox import Script
from placement_lint.probe.standins.sizes import COUNT

Answer = Mapping[str, Any]

OPTIONS = "*packages, everything=False, workers=False, saved_on='cpu', unset=(), full=False"
LABEL = "# Stand-ins for what is not there. What follows, down to the call of `stand_in`, is no part of the program."
PLAIN = "plain"  # what standins/ calls the function of PyTorch's that a wrapper of its own stands before


@dataclass(frozen=True)
class Lack:
    """What a program lacks: packages, and perhaps ``everything``, options and files that it can do without included.

    ``module:name`` is a name that a library does not have. If there are ``workers``, the processes of loaders stay.
    ``saved_on`` is where those had their tensors who saved the checkpoints.
    Options that are ``unset`` get no value if they can do without. Without ``time``, large tensors have no values.
    Batches are ``full`` where the program counts on their size.
    """

    packages: frozenset[str]
    everything: bool = False
    workers: bool = False
    saved_on: str = "cpu"
    unset: frozenset[str] = frozenset()
    time: bool = True
    full: bool = False

    @property
    def prelude(self) -> str:
        """Lines that put stand-ins in its place, and in that of files that are not there."""
        switches = [name for name in ("everything", "workers", "full") if getattr(self, name)]
        given = [*(f'"{package}"' for package in sorted(self.packages)), *(f"{name}=True" for name in switches)]
        given += [f'saved_on="{self.saved_on}"'] if self.saved_on != "cpu" else []
        given += [f"unset={tuple(sorted(self.unset))}"] if self.unset and self.everything else []
        return f"{_definition()}stood_in = stand_in({', '.join(given)})\n"


@cache
def _definition() -> str:
    body = list(_joined())
    source = ast.unparse(untyped(ast.Module(body, [])))
    note = (
        '"""Put stand-ins in the place of packages, files and options that are not there; give back which are used."""'
    )
    text = f"{note}\n{source}\ninstall(packages, everything, workers, saved_on, unset, full)\nreturn used\n"
    head = f"{LABEL}\ndef stand_in({OPTIONS}):\n"
    return f"{head}{textwrap.indent(text, '    ')}\n\n"


# The modules with stand-ins, each after those that it imports.
MODULES = (
    "sizes", "callers", "texts", "models", "things", "packages", "shapes", "data", "options", "files", "install",
)  # fmt: skip
UNNEEDED = {"__future__", "typing", "placement_lint"}  # what is imported for types, or is joined itself


def _joined() -> Iterator[ast.stmt]:
    """The statements of the modules with stand-ins, without docstrings and imports of one another."""
    imported: set[str] = set()
    for module in MODULES:
        text = Path(__file__).with_name("standins").joinpath(f"{module}.py").read_text(encoding="utf-8")
        for node in ast.parse(text).body[1:]:
            is_import = isinstance(node, (ast.Import, ast.ImportFrom))
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in UNNEEDED:
                continue
            if is_import and ast.unparse(node) in imported:
                continue
            imported.update([ast.unparse(node)] if is_import else [])
            yield node


@cache
def plain_lines() -> frozenset[int]:
    """The lines of a prelude at which PyTorch's own functions are called: what they raise is no stand-in's doing."""
    return frozenset(
        node.lineno
        for node in ast.walk(ast.parse(_definition()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == PLAIN
    )


def missing_packages(text: str, roots: Collection[str], beside: str = "") -> set[str]:
    """The packages that a program or a file that it imports imports unconditionally and that are not installed.

    ``beside`` is the folder of the program, from which its relative imports start.
    """
    missing: set[str] = set()
    waiting = [*_imported(ast.parse(text).body, beside or next(iter(roots), ""))]
    known = set(waiting)
    while waiting and len(known) < MOST_IMPORTED:
        module, folder = waiting.pop()
        if not folder and not _is_there(module.partition(".")[0], roots):
            missing.add(module.partition(".")[0])
        for path in _files(module, (folder,) if folder else roots):
            found = [one for one in _imported_by(path) if one not in known]
            known.update(found)
            waiting += found
    return missing


MOST_IMPORTED = 600  # modules that are looked at for what they import


def _files(module: str, folders: Collection[str]) -> Iterator[str]:
    """The files that are run when a module of the program is imported: packages, and itself."""
    parts = module.split(".") if module else []
    for folder in folders:
        stem = os.path.join(folder, *parts)
        if os.path.isfile(f"{stem}.py") or os.path.isfile(os.path.join(stem, INIT)):
            inits = (os.path.join(folder, *parts[: count + 1], INIT) for count in range(len(parts)))
            yield from (path for path in (*inits, f"{stem}.py") if os.path.isfile(path))
            return


@cache
def _imported_by(path: str) -> tuple[tuple[str, str], ...]:
    try:
        body = ast.parse(Path(path).read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return ()
    return tuple(_imported(body, os.path.dirname(path)))


INIT = "__init__.py"


def _imported(body: list[ast.stmt], beside: str) -> Iterator[tuple[str, str]]:
    """The modules that statements import; of a relative import with the folder from which it starts."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = beside
            for _ in range(node.level - 1):
                folder = os.path.dirname(folder)
            module = node.module or ""
            yield module, folder if node.level else ""
            yield from ((f"{module}.{alias.name}".strip("."), folder if node.level else "") for alias in node.names)


def _is_there(package: str, roots: Collection[str]) -> bool:
    if any(os.path.exists(os.path.join(root, name)) for root in roots for name in (package, f"{package}.py")):
        return True
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


# --- playing -------------------------------------------------------------------------------------------------------

MOST_ROUNDS = 12  # in which one lack after another is found


def played(
    play: Callable[[Script], Answer],
    script: Script,
    suffices: Callable[[Answer], bool],
    lack: Lack,
    known: set[str],
) -> tuple[Answer, Lack | None]:
    """What comes of a script, and what it lacks besides ``lack``, if it is played with stand-ins.

    It is played as it is first, unless it lacks a package for certain; where that does not suffice, with stand-ins.
    Packages that turn out to be missing are ``known`` from then on.
    """
    texts = [text for text in (script.text, script.entry) if text]
    missing = (name for text in texts for name in missing_packages(text, script.roots, script.beside))
    lack = replace(lack, packages=lack.packages.union(missing))
    script = replace(script, hollow=not lack.time)
    if not lack.packages and not lack.everything:
        answer = play(script)
        if suffices(answer):
            return answer, None
    lack = replace(lack, packages=lack.packages | known)
    for _ in range(MOST_ROUNDS):
        answer = _played_with(play, script, lack)
        if answer.get("package") and answer["package"] not in lack.packages:
            known.add(answer["package"])
            lack = replace(lack, packages=lack.packages | known)
        elif is_costly(answer) and lack.time:
            lack = replace(lack, time=False)
            script = replace(script, hollow=True)
        elif not lack.everything and not suffices(answer):
            lack = replace(lack, everything=True)
        elif not lack.full and _wants_more(answer) and not suffices(answer):
            lack = replace(lack, full=True)
        else:
            break
    return answer, lack


def _wants_more(answer: Answer) -> bool:
    """Whether an error may be due to how few rows a batch has, or how few batches there are."""
    few = FEW_ROWS.search(str(answer.get("message", "")))
    return few is not None or "ZeroDivisionError" in answer.get("raised", ())


# What PyTorch says of sizes that differ, where one of them is the number of rows of a stand-in.
FEW_ROWS = re.compile(rf"(size|shape).*\b{COUNT}\b")


def is_costly(answer: Answer) -> bool:
    """Whether a program took more than it may, of time or of memory."""
    return any(words in str(answer.get("unable", "")) for words in COSTLY)


COSTLY = ("did not end within", "of memory", "SIGKILL")
COUNTED = ("reached", "times", "left", "stood_in")  # what an answer says of how far it came


def _played_with(play: Callable[[Script], Answer], script: Script, lack: Lack) -> Answer:
    """The answer, with the lines of the script as they are without the prelude."""
    whole, before = script.entry or script.text, lack.prelude
    start, length = _start(whole), len(before.splitlines())
    inside = range(start + 1, start + length + 1)

    def later(line: int) -> int:
        return line + length if line > start else line

    def earlier(line: int) -> int:
        return line - length if line > start else line

    text = with_prelude(whole, before)
    if script.entry:
        answer = dict(play(replace(script, entry=text)))
        came = answer.get("entered", ())
    else:
        lines, kept = (tuple(map(later, some)) for some in (script.lines, script.kept))
        answer = dict(play(replace(script, text=text, lines=lines, kept=kept)))
        came = answer.get("lines", ())
        for key in ("lines", "reached"):
            answer[key] = [earlier(line) for line in answer.get(key, ()) if line not in inside]
        for key in ("times", "left"):
            answer[key] = [(earlier(line), times) for line, times in answer.get(key, ()) if line not in inside]
    if came and came[-1] in inside and came[-1] - start not in plain_lines():
        reason = f"a stand-in raises {answer['raised'][0]}: {answer['message']}"
        answer = {key: answer[key] for key in COUNTED if key in answer} | {"unable": reason}
    return answer


def with_prelude(text: str, before: str) -> str:
    """The program with the prelude at its beginning, after imports from the future."""
    lines = text.splitlines(keepends=True)
    start = _start(text)
    return "".join([*lines[:start], before, *lines[start:]])


def _start(text: str) -> int:
    """The line after which a prelude can stand."""
    future = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return max((node.end_lineno or 0 for node in future), default=0)

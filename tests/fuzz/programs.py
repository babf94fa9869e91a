"""The programs of the fuzzer: each is identified by a seed and a number, and can be generated from them again."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from .grammar import Grammar
from .mutation import Mutator
from .trees import tree_of

HERE = Path(__file__).parent
FIXTURES = HERE.parents[1] / "fixtures"
KEPT = HERE / "kept"
STDLIB = Path(sysconfig.get_path("stdlib"))
TESTS_OF_PYTHON = STDLIB / "test"
# Maximum size in bytes of a file that is parsed for a few of its statements.
LONGEST_FILE = 200_000


@dataclass(frozen=True)
class Program:
    """A text, and its previous version in an editor."""

    text: str
    before: str = ""


def program(seed: int, number: int) -> Program:
    random = Random(f"{seed}:{number}")
    made = Grammar(random).program() if random.random() < 0.25 else _sown(random)
    return Program(Mutator(random, lambda: _sown(random)).mutated(made), made)


def kept() -> Sequence[Path]:
    """Programs that once showed a fault."""
    return sorted(KEPT.glob("*.py.txt"))


def _sown(random: Random) -> str:
    """A program written by a person: a fixture, or a few statements of CPython's tests."""
    fixtures, tests = _files()
    if not tests or random.random() < 0.8:
        return _text(random.choice(fixtures))
    body = _statements(random.choice(tests))
    return "import torch\n" + "".join(random.choice(body) for _ in range(random.randint(1, 3)) if body)


@cache
def _files() -> tuple[Sequence[Path], Sequence[Path]]:
    tests = [path for path in sorted(TESTS_OF_PYTHON.glob("test_*.py")) if path.stat().st_size < LONGEST_FILE]
    return [*sorted(FIXTURES.rglob("*.py")), *kept()], tests


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def _statements(path: Path) -> Sequence[str]:
    """The source texts of the top-level statements."""
    text = _text(path)
    tree = tree_of(text)
    lines = text.splitlines(keepends=True)
    return ["".join(lines[node.lineno - 1 : node.end_lineno]) for node in tree.body] if tree is not None else ()

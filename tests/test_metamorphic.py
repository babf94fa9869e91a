"""Equivalent forms of one program have the same findings, whatever its comments, names, imports and forms of calls.

A different share of the fixtures runs each day; ``SHARE=all`` runs all of them (see ``shares.py``).
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import shares
from test_fixtures import FIXTURES, SINGLE

from placement_lint.checking.checker import Checker, Job
from placement_lint.config.settings import Settings

CHATTY = "# if flag: break; the size is fixed, shared and tied; model.to(device).cuda(); self.training, z, n"


def commented(text: str) -> str:
    """The text with a comment full of relevant words after each line that ends a statement."""
    ends = {token.start[0] for token in _tokens(text) if token.type == tokenize.NEWLINE}
    lines = [f"{line}\n{CHATTY}" if number in ends else line for number, line in enumerate(text.splitlines(), 1)]
    return "\n".join(lines) + "\n"


def renamed(text: str) -> str:
    """The text with renamed local variables of functions; parameters keep their names because callers may use them."""
    new = ast.parse(text)
    for function in ast.walk(new):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _rename_locals(function)
    return ast.unparse(new)


def _rename_locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    inner = [node for node in ast.walk(function) if node is not function]
    if any(isinstance(node, (*SCOPES, ast.Global, ast.Nonlocal)) for node in inner):
        return
    names = [node for node in inner if isinstance(node, ast.Name)]
    if any(name.id in ("locals", "vars", "eval", "exec") for name in names):
        return
    parameters = {node.arg for node in inner if isinstance(node, ast.arg)}
    local = {name.id for name in names if isinstance(name.ctx, ast.Store)} - parameters - OPTIONS
    for name in names:
        if name.id in local:
            name.id += SUFFIX


# Usual names of options, from which the analysis infers the meaning of an attribute: `args.rank`.
OPTIONS = {"arg", "args", "opt", "opts", "options", "config", "cfg", "hparams"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
# A suffix preserves the beginning of a name and its words.
SUFFIX = "_"


def aliased(text: str) -> str:
    """The text with ``import torch as pt`` for ``import torch``, if that is its only import of torch."""
    new = ast.parse(text)
    plain = [node for node in ast.walk(new) if isinstance(node, ast.Import)]
    if not any(one.name == "torch" and one.asname is None for node in plain for one in node.names):
        return ast.unparse(new)
    if any(one.name.startswith("torch.") and one.asname is None for node in plain for one in node.names):
        return ast.unparse(new)
    for node in ast.walk(new):
        if isinstance(node, ast.Import):
            for one in node.names:
                one.asname = "pt" if one.name == "torch" else one.asname
        elif isinstance(node, ast.Name) and node.id == "torch":
            node.id = "pt"
    return ast.unparse(new)


def called_as_function(text: str) -> str:
    """The text with ``torch.autograd.backward(loss)`` for ``loss.backward()``."""

    class Caller(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            method = node.func
            if isinstance(method, ast.Attribute) and method.attr == "backward" and not node.args and not node.keywords:
                return ast.Call(ast.parse("torch.autograd.backward", mode="eval").body, [method.value], [])
            return node

    return ast.unparse(Caller().visit(ast.parse(text)))


def under_a_harmless_test(text: str) -> str:
    """The text with a conditional ``print`` before the statements of each function."""

    class Guard(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            self.generic_visit(node)
            told = ast.parse("if print is None:\n    print('break')").body[0]
            first = 1 if ast.get_docstring(node) is not None else 0
            node.body[first:first] = [told]
            return node

    return ast.unparse(ast.fix_missing_locations(Guard().visit(ast.parse(text))))


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


CHANGES: tuple[Callable[[str], str], ...] = (renamed, called_as_function, aliased, under_a_harmless_test, commented)

FOLDERS = sorted({path.relative_to(FIXTURES).parts[0] for path in SINGLE})


@pytest.mark.parametrize("folder", FOLDERS)
def test_spellings_decide_nothing(folder: str, checker: Checker) -> None:
    """Apply all changes at once; if the findings differ, apply each change alone to find the cause."""
    paths = [path for path in SINGLE if path.is_relative_to(FIXTURES / folder) and shares.runs(path.name)]
    different = [path for path in paths if _differs(checker, path, CHANGES)]
    guilty = {
        path.name: [change.__name__ for change in CHANGES if _differs(checker, path, [change])] for path in different
    }
    assert not guilty


def _differs(checker: Checker, path: Path, changes: Iterable[Callable[[str], str]]) -> bool:
    text = path.read_text(encoding="utf-8")
    if any("placement-lint:" in token.string for token in _tokens(text) if token.type == tokenize.COMMENT):
        return False
    before = _found(checker, path, text)
    for change in changes:
        text = change(text)
    return _found(checker, path, text) != before


def _found(checker: Checker, path: Path, text: str) -> Counter[str]:
    return Counter(finding.code for finding in checker.check_bytes(text.encode(), str(path)).findings)


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(Job(Settings(root=FIXTURES)))

"""Fixtures, and rules without flow analysis for tests of the other components."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import libcst as cst
import pytest
import shares

from placement_lint import registry
from placement_lint.checking.checker import Job, Reading
from placement_lint.config.settings import Settings
from placement_lint.finding import Applicability, Severity
from placement_lint.flow.driver.analyse import Account
from placement_lint.own_rules import RULES as OWN_RULES
from placement_lint.project.finder import Surroundings
from placement_lint.rule import Note, Page, Problem, Rewrite, Rule

TESTS = Path(__file__).parent
PAGE = Page(what="Reports a call. Always.", why="w", example="bad()\n", instead="good()\n", silent="s")


def _silent(_: object) -> Iterator[Problem]:
    return iter(())


BAD = Rule("DPL301", "bad-call", Severity.ERROR, PAGE, {cst.Call: _silent})
WORSE = Rule("DPL302", "worse-call", Severity.WARNING, PAGE, {cst.Call: _silent})
ADVICE = Rule("DPL501", "advice-call", Severity.INFO, PAGE, {cst.Call: _silent})
FAKES = {"bad": BAD, "worse": WORSE, "advice": ADVICE}
FIXES = {"bad": Applicability.SAFE, "worse": Applicability.UNSAFE, "advice": Applicability.SAFE}


class Calls(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: list[cst.Call] = []

    def visit_Call(self, node: cst.Call) -> None:
        self.found.append(node)


def problem(call: cst.Call, name: str) -> Problem:
    return Problem(
        call,
        f"`{name}()` is called",
        trace=(Note(call.func, f"{name} is named here"),),
        rewrite=Rewrite(FIXES[name], "call `good` instead", ((call.func, "good"),)),
    )


def hear_calls(module: cst.Module, rules: Sequence[Rule], surroundings: Surroundings) -> SimpleNamespace:
    """A stand-in for the analysis: each call to ``bad``, ``worse`` or ``advice`` is a problem."""
    calls = Calls()
    module.visit(calls)
    problems, crashes = [], []
    for call in calls.found:
        name = call.func.value if isinstance(call.func, cst.Name) else ""
        if FAKES.get(name) in rules:
            problems.append((FAKES[name], problem(call, name)))
        if name == "crash":
            crashes.append((WORSE, _raised(KeyError("lost"))))
        if name == "panic":
            raise _raised(RuntimeError("the analysis fell over"))
    return SimpleNamespace(problems=problems, crashes=crashes, account=Account())


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


@pytest.fixture(autouse=True)
def same_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the working directory after each test: a language server's worker in the test process changes it."""
    monkeypatch.chdir(Path.cwd())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other days' shares, unless a test is named."""
    if any("::" in argument for argument in config.args):
        return
    rotating = {TESTS / name for name in shares.ROTATING}
    left_out = {item for item in items if item.path in rotating and not shares.runs(item.nodeid, shares.PARTS)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def fake_rules(monkeypatch: pytest.MonkeyPatch) -> dict[str, Rule]:
    listen = ModuleType("placement_lint.checking.listen")
    listen.problems_in = hear_calls  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "placement_lint.checking.listen", listen)
    monkeypatch.setattr(Reading, "may_tell", lambda *_: True)
    monkeypatch.setattr(registry, "all_rules", lambda: (*OWN_RULES, BAD, WORSE, ADVICE))
    return FAKES


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder for the tests and their subprocesses, so that they do not change the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache folder for one test."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


@pytest.fixture
def job(project: Path) -> Job:
    return Job(Settings(root=project))


@pytest.fixture
def write(project: Path) -> Callable[..., Path]:
    """Write a file of the project, and create its folders."""

    def write_file(name: str, content: str | bytes = "import torch\n") -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Set the content of standard input."""

    def feed(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return feed


@pytest.fixture
def needs_permissions() -> None:
    """Skip the test if file permissions do not restrict this user."""
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        pytest.skip("this user may read everything")

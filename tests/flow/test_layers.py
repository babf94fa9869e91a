"""The packages of ``flow/`` import each other in one direction only.

The number of attributes of a class is limited, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FLOW = Path(__file__).parents[2] / "placement_lint" / "flow"

# Each package may import itself and the packages before it.
ORDER = ["api", "domain", "events", "state", "models", "observers", "interpreter", "triage", "incremental", "driver"]
FILES = [path for path in sorted(FLOW.rglob("*.py")) if path.name != "__init__.py"]


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """The package and the name of each file of ``flow/`` that a file imports, for types or at run time."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("placement_lint.flow."):
            continue
        layer, _, name = str(node.module).removeprefix("placement_lint.flow.").partition(".")
        yield from [(layer, name)] if name else [(layer, alias.name) for alias in node.names]


def test_each_file_has_a_layer() -> None:
    assert {path.parent.relative_to(FLOW).as_posix() for path in FILES} == set(ORDER)


def test_imports_follow_the_order() -> None:
    against = {
        f"{path.stem} imports {name}"
        for path in FILES
        for layer, name in imported(path)
        if ORDER.index(layer) > ORDER.index(path.parent.name)
    }
    assert not against


def at_run_time(path: Path) -> set[str]:
    """The files of ``flow/`` that a file imports at run time, by layer and name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        line for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for line in ast.walk(node)
    }  # fmt: skip
    lines = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in for_types]
    names = {f"{line.module}.{alias.name}" for line in lines for alias in line.names} | {
        str(line.module) for line in lines
    }
    return {name.removeprefix("placement_lint.flow.") for name in names if name.startswith("placement_lint.flow.")}


def test_no_file_outside_the_interpreter_imports_itself_over_others() -> None:
    """Only the interpreter has import cycles: statements, expressions and calls of a program are mutually nested."""
    known = {f"{path.parent.name}.{path.stem}": at_run_time(path) for path in FILES}
    waiting = {name: {each for each in others if each in known} for name, others in known.items()}
    while free := {name for name, others in waiting.items() if not others & waiting.keys()}:
        waiting = {name: others for name, others in waiting.items() if name not in free}
    above = {name for name in waiting if not any(name in others for others in waiting.values())}
    while above:
        waiting = {name: others for name, others in waiting.items() if name not in above}
        above = {name for name in waiting if not any(name in others for others in waiting.values())}
    assert {name.partition(".")[0] for name in waiting} == {"interpreter"}


MOST_ATTRIBUTES = 25


def attributes(cls: ast.ClassDef) -> set[str]:
    """The attributes of instances: those that the class declares, and those that its methods set on ``self``."""
    declared = {line.target for line in cls.body if isinstance(line, ast.AnnAssign)}
    written = {
        node
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return {node.id for node in declared if isinstance(node, ast.Name)} | {node.attr for node in written}


def test_no_class_has_too_many_attributes() -> None:
    large = {
        node.name: len(held)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and len(held := attributes(node)) > MOST_ATTRIBUTES
    }
    assert not large


def test_replace_names_fields() -> None:
    """The records' ``replace`` does not check names: a wrong one would be ignored."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    fields = {name for node in nodes if isinstance(node, ast.ClassDef) for name in attributes(node)}
    named = {
        keyword.arg
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "replace"
        for keyword in node.keywords
    }
    assert not named - fields - {None}


def test_cells_of_the_analysis_are_no_strings() -> None:
    """Cells that the analysis stores in the heap in addition to a program's variables are named by a ``Slot``."""
    marked = {
        f"{path.stem}: {node.value}"
        for path in FILES
        if path.parent.name != "triage"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("#")
    }
    assert not marked


TESTS_OF_TEXT = {
    "search",
    "match",
    "fullmatch",
    "findall",
    "finditer",
    "startswith",
    "endswith",
    "partition",
    "rpartition",
    "split",
    "removeprefix",
    "removesuffix",
}


def is_code(node: ast.AST) -> bool:
    """Whether an expression uses the source text of a node or of a value."""
    called = {each.func for each in ast.walk(node) if isinstance(each, ast.Call)}
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names |= {each.id for each in called if isinstance(each, ast.Name)}
    return not names.isdisjoint({"text", "source_text", "lines_of"})


def on_code(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        operands: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TESTS_OF_TEXT:
            operands = [node.func.value, *node.args]
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        found += [ast.unparse(node)] if any(map(is_code, operands)) else []
    return found


def test_no_semantics_hang_on_how_code_is_laid_out() -> None:
    """The result of a test on source text depends on comments and spaces; a test on nodes does not."""
    found = [
        f"{path.stem}: {test}"
        for path in FILES
        if path.parent.name != "triage"
        for test in on_code(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert sorted(found) == [
        # One compares a device's name with names in the program, the other the wording of two questions in a message.
        "device_choice: ignored.text in visit.names",
        "path_condition: source_text(self.source) == source_text(other.source)",
    ]


def test_observers_are_told_by_signals() -> None:
    """Models and the interpreter call an observer only for its result; they notify observers by signals."""
    observers = {path.stem for path in FILES if path.parent.name == "observers"}
    told = [
        f"{path.stem}: {ast.unparse(node)}"
        for path in FILES
        if path.parent.name in ("models", "interpreter")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).partition(".")[0] in observers
    ]
    assert not told


def test_one_object_holds_the_state_of_the_solver() -> None:
    """No module of ``flow/`` has a global that changes, but for the questions of the program that is being analysed."""
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    rebound = {
        f"{name}.{variable}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Global)
        for variable in node.names
    }
    filled_later = {
        f"{name}: {ast.unparse(line)}"
        for name, tree in trees.items()
        for line in tree.body
        if isinstance(line, (ast.Assign, ast.AnnAssign))
        and line.value is not None
        and ast.unparse(line.value) in ("{}", "[]", "set()", "dict()", "list()", "WeakValueDictionary()")
    }
    assert rebound == {"path_condition._now"}
    assert not filled_later


def unprotected(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements with a ``yield`` that are in neither a ``with`` nor a ``try`` with a ``finally``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.With) or (isinstance(child, ast.Try) and child.finalbody):
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Yield):
            yield child
        yield from unprotected(child)


def test_context_managers_restore_what_they_change() -> None:
    """A ``yield`` with statements after it is in a ``try`` with a ``finally``, or in a ``with``."""
    leaving = {
        f"{path.stem}.{node.name}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any("contextmanager" in ast.unparse(each) for each in node.decorator_list)
        and any(statement is not node.body[-1] for statement in unprotected(node))
    }
    assert not leaving

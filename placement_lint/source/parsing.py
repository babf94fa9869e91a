"""From text to a syntax tree; each way in which this can fail has a clear message."""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from placement_lint.source.scan import STRING_OR_COMMENT, Scan, split_lines
from placement_lint.source.text import Unreadable

if TYPE_CHECKING:
    import libcst as cst

# CPython's own tokenizer rejects more; libcst's native parser would exhaust the stack and kill the process.
MOST_NESTED_BRACKETS = 200
# libcst's time grows faster than the square of an expression's depth: seconds at 3,000, minutes at 10,000.
MOST_NESTED_NODES = 1500
# A statement with this many characters has no more nested nodes than these.
_LETTERS = 1000
TOO_DEEP = "an expression is nested too deeply to be analysed"
BOM = "\ufeff"
PLACE = re.compile(r"error at (\d+):(\d+)")
# Errors inside literals, which no version of Python accepts, and libcst does not check.
_IN_LITERALS = (
    "(unicode error)",
    "(value error)",
    "bytes can only contain ASCII",
    "cannot mix bytes and nonbytes literals",
    "Exceeds the limit",  # of digits in an integer
)


def read(text: str, sparing: bool = False) -> cst.Module:
    """The tree of a text without layout: abstract if possible, else libcst's own.

    To spare memory, the nodes in its functions are parsed again when they are read.
    """
    from placement_lint.source.abstraction import KINDS, abstracted

    # What reads a tree sparingly empties its functions, so that one is not shared.
    tree = _tree_within_reach(text, python_tree if sparing else shared_tree)
    if tree is None or text.startswith(BOM) or not _kinds(tree) <= KINDS:
        return _parsed(text)
    return abstracted(tree.root, text, tree.statements, sparing)


def parse(text: str) -> cst.Module:
    """The tree of a text with all its layout, or :class:`Unreadable` with the place and the reason."""
    _tree_within_reach(text, shared_tree)
    return _parsed(text)


def _parsed(text: str) -> cst.Module:
    import libcst as cst

    try:
        if keyword_as_name(text) is None:
            return cst.parse_module(text)
        return _with_old_names(cst.parse_module(_with_new_names(text)))
    except (RecursionError, MemoryError):
        raise Unreadable(TOO_DEEP) from None
    except Exception as error:  # a syntax error, or an error of a node's constructor
        # Python's own message names the mistake, while libcst lists the tokens it expected.
        raise syntax_error(text) or _beyond_the_parser(error) from None


def check_syntax(text: str) -> None:
    """Raise :class:`Unreadable` unless the text is Python, at a twelfth of the cost of :func:`parse`."""
    if text not in _shared and not _has_symbols(text) and syntax_error(text):
        parse(text)  # syntax newer than the running Python is not an error


def _has_symbols(text: str) -> bool:
    """Whether Python accepts the text: making its symbol table does not expose the tree, and is faster."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(text.removeprefix(BOM), "<unknown>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def syntax_error(text: str) -> Unreadable | None:
    """The error of the running Python for the text."""
    try:
        python_tree(text)
    except SyntaxError as error:
        return _refused(error)
    except (RecursionError, MemoryError):
        return Unreadable(TOO_DEEP)
    except ValueError as error:
        return Unreadable(str(error))
    return None


# Names of old programs, for arguments too, `x.cuda(async=True)`, and the names of the same length to parse instead.
_NEW_NAMES = {"async": "asynC", "await": "awaiT"}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}
_NEW_KEYWORD = re.compile(r"\b(?:async|await)\b")
_ASYNCHRONOUS = re.compile(r"\basync\s+(?:def|for|with)\b")
# The fields of Python's nodes with one name, or a dotted one.
_NAMING = {"id", "attr", "arg", "name", "asname", "module"}
_STRING_OR_KEYWORD = re.compile(rf"{STRING_OR_COMMENT.pattern} | {_NEW_KEYWORD.pattern}", STRING_OR_COMMENT.flags)


def keyword_as_name(text: str) -> Unreadable | None:
    """The error of the running Python for a text in which ``async`` or ``await`` is a name, as Python 3.6 allows."""
    if not _NEW_KEYWORD.search(text) or _ASYNCHRONOUS.search(text) or _parsed_by_python(text) is not None:
        return None
    renamed = _with_new_names(text)
    if _parsed_by_python(renamed) is None:
        return None
    offset = next(place for place, (old, new) in enumerate(zip(text, renamed, strict=True)) if old != new)
    found = next(each for each in _NEW_KEYWORD.finditer(text) if each.end() > offset)
    lines = split_lines(text[: found.start()])
    return Unreadable(f"invalid syntax: {_advice(found[0])}", len(lines), len(lines[-1]) + 1)


def _parsed_by_python(text: str) -> ast.Module | None:
    try:
        return _parse_strictly(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _with_new_names(text: str) -> str:
    return _STRING_OR_KEYWORD.sub(lambda found: _NEW_NAMES.get(found[0], found[0]), text)


def _with_old_names(module: cst.Module) -> cst.Module:
    from libcst import CSTTransformer, Name

    class Renaming(CSTTransformer):
        def leave_Name(self, original_node: Name, updated_node: Name) -> Name:
            old = _OLD_NAMES.get(original_node.value)
            return updated_node.with_changes(value=old) if old is not None else updated_node

    return module.visit(Renaming())


def _refused(error: SyntaxError) -> Unreadable:
    column = max(error.offset or 1, 1)
    word = _NEW_KEYWORD.match(error.text or "", column - 1)
    message = f"{error.msg}: {_advice(word[0])}" if word is not None else error.msg
    return Unreadable(message, error.lineno or 1, column)


def _advice(word: str) -> str:
    advice = f"`{word}` is a keyword since Python 3.7"
    return (
        f"{advice}; PyTorch calls the argument of `.cuda()` and `.to()` `non_blocking`" if word == "async" else advice
    )


def python_tree(text: str) -> ast.Module:
    """Python's own tree of a text, in which ``async`` and ``await`` may be names."""
    if keyword_as_name(text) is None:
        return _parse_strictly(text)
    tree = _parse_strictly(_with_new_names(text))
    for node in ast.walk(tree):
        for field in _NAMING & set(node._fields):
            name = getattr(node, field)
            if isinstance(name, str):
                setattr(node, field, ".".join(_OLD_NAMES.get(part, part) for part in name.split(".")))
    return tree


def _parse_strictly(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.removeprefix(BOM))


_shared: dict[str, ast.Module] = {}


def shared_tree(text: str) -> ast.Module:
    """The tree of the text that is checked: triage and the analysis share it, and change nothing in it."""
    tree = _shared.get(text)
    if tree is None:
        tree = python_tree(text)
        _shared.clear()
        _shared[text] = tree
    return tree


class BeyondTheParser(Unreadable):
    """The rare text that Python accepts and libcst does not."""


def _beyond_the_parser(error: Exception) -> BeyondTheParser:
    """The error for such a text; only libcst's message has the position."""
    place = PLACE.search(str(error))
    line, column = (int(place[1]), int(place[2]) + 1) if place else (1, 1)
    return BeyondTheParser("Python accepts this line, but libcst cannot parse it", line, column)


class _Tree(NamedTuple):
    """Python's own tree of a text, with its statements, handlers and decorators by their nesting depth."""

    root: ast.Module
    blocks: Sequence[Sequence[Any]]

    @property
    def statements(self) -> Sequence[int]:
        """The lines on which they begin."""
        return array("L", sorted(each.lineno for block in self.blocks for each in block))


def _tree_within_reach(text: str, parser: Callable[[str], ast.Module]) -> _Tree | None:
    """Python's own tree, if it has one; a text that takes libcst minutes, or overflows the stack, is rejected."""
    try:
        root = parser(text)
    except SyntaxError as error:
        if error.msg.startswith(_IN_LITERALS):
            raise _refused(error) from None
        refuse_nested_brackets(text)
        return None  # the parser reports it, or supports newer syntax than the running Python
    except ValueError:
        refuse_nested_brackets(text)
        return None
    except (RecursionError, MemoryError):
        raise Unreadable(TOO_DEEP) from None
    tree = _Tree(root, [*_blocks(root)])
    if _may_be_deep(tree, split_lines(text)):
        _refuse_depth(root)
    return tree


def refuse_nested_brackets(text: str) -> None:
    """Reject as many nested brackets as Python itself does, which reports this for no text that it accepts."""
    depth, offset = Scan(text).depth
    if depth > MOST_NESTED_BRACKETS:
        lines = split_lines(text[:offset])
        raise Unreadable(
            f"brackets are nested {depth:,} deep; Python itself refuses more than {MOST_NESTED_BRACKETS}",
            len(lines),
            len(lines[-1]) + 1,
        )


def _refuse_depth(tree: ast.Module) -> None:
    depth = 0
    bottom: ast.AST = tree
    for level in levels(tree):
        depth += 1
        bottom = next((node for node in level if hasattr(node, "lineno")), bottom)
    if depth > MOST_NESTED_NODES:
        raise Unreadable(TOO_DEEP, getattr(bottom, "lineno", 1), getattr(bottom, "col_offset", 0) + 1)


def _may_be_deep(tree: _Tree, lines: Sequence[str]) -> bool:
    """Whether nodes may be nested too deeply: only long statements are checked."""
    if len(tree.blocks) + _LETTERS >= MOST_NESTED_NODES:
        return True
    few = _LETTERS // (max(map(len, lines)) + 1)
    return any(
        depth + _depth(each) > MOST_NESTED_NODES
        for depth, block in enumerate(tree.blocks, 2)
        for each in _of_more_lines(block, few)
        if _letters(each, lines) > _LETTERS
    )


def _of_more_lines(block: Iterable[Any], few: int) -> list[ast.AST]:
    return [each for each in block if each.end_lineno - each.lineno >= few]


def _letters(statement: Any, lines: Sequence[str]) -> int:
    """The number of characters in the lines of a statement, or of the part before its block."""
    last = statement.body[0].lineno if type(statement) in _BLOCKS else statement.end_lineno
    return sum(map(len, lines[statement.lineno - 1 : last]))


def _depth(statement: ast.AST) -> int:
    """The depth of the nodes in a statement, or in the part before its block."""
    return sum(1 for _ in levels(*_below([statement], _HEADERS)))


def _blocks(tree: ast.Module) -> Iterator[Sequence[Any]]:
    block: Sequence[Any] = tree.body
    while block:
        yield block
        block = [inner for each in block for field in _BLOCKS.get(type(each), ()) for inner in getattr(each, field)]


def _kinds(tree: _Tree) -> set[type[ast.AST]]:
    """The kinds of statements in it; of all nodes, if Python has expressions that are left to libcst."""
    from placement_lint.source.abstraction import KINDS

    parts = tree.blocks if KINDS.issuperset(ast.expr.__subclasses__()) else levels(tree.root)
    return {type(node) for part in parts for node in part}


def levels(*nodes: ast.AST) -> Iterator[Sequence[ast.AST]]:
    """The nodes and all inside them, level by level; without recursion, whose limit an unusual text would exceed."""
    level: Sequence[ast.AST] = nodes
    while level:
        yield level
        level = _below(level, CHILDREN)


def _below(nodes: Iterable[ast.AST], fields: Mapping[type[ast.AST], Sequence[str]]) -> list[ast.AST]:
    """The nodes in these fields of nodes, by their kinds."""
    below: list[object] = []
    for node in nodes:
        for field in fields[type(node)]:
            child = getattr(node, field, None)
            if isinstance(child, list):
                below.extend(child)
            elif child is not None:
                below.append(child)
    return [node for node in below if isinstance(node, ast.AST)]


# The fields of each node that may hold others; operators, contexts and the values of constants are irrelevant.
_PLAIN = {"ctx", "op", "ops", "id", "attr", "kind", "module", "level", "asname", "type_comment"}
CHILDREN = {
    node: tuple(field for field in node._fields if field not in _PLAIN)
    for node in vars(ast).values()
    if isinstance(node, type) and issubclass(node, ast.AST)
} | {ast.Constant: ()}
# For nodes with blocks: the fields with blocks, which are read separately, and the others.
_APART = ("body", "handlers", "orelse", "finalbody", "decorator_list", "type_params")
_BLOCKS: dict[type[ast.AST], tuple[str, ...]] = {
    node: tuple(field for field in _APART if field in fields)
    for node, fields in CHILDREN.items()
    if issubclass(node, (ast.stmt, ast.excepthandler)) and "body" in fields
}
_HEADERS = CHILDREN | {node: tuple(set(CHILDREN[node]).difference(apart)) for node, apart in _BLOCKS.items()}

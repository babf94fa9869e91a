"""The rule API: a rule is a value that names the events it listens to and the checks for them.

A rule never walks a syntax tree. The flow analysis passes it one event at a time, with concrete abstract values, and
the rule yields a :class:`Problem` for code that misbehaves in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from placement_lint.finding import Applicability, Severity, When
from placement_lint.probe.experiment import Experiment

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.flow.events.schema import Scene
    from placement_lint.project.saved_states import StateFile


@dataclass(frozen=True)
class Page:
    """A rule's documentation as data: the single source for ``explain``, hover, SARIF and the documentation site.

    ``example`` and ``instead`` are complete Python sources: the first has the finding, the second does not (the tests
    check both). The other fields are Markdown.
    """

    what: str
    why: str
    example: str
    instead: str
    silent: str
    fix: str = ""


@dataclass(frozen=True)
class Note:
    """A step of a trace as a syntax node and a message."""

    node: cst.CSTNode
    message: str


@dataclass(frozen=True)
class Rewrite:
    """A fix as new source text for syntax nodes."""

    applicability: Applicability
    message: str
    replacements: tuple[tuple[cst.CSTNode, str], ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of Python that a replay inserts after the statement of ``node``, or ``before`` it.

    It may use the names in scope there, ``torch``, and the list ``watched``, which all lines share.
    """

    node: cst.CSTNode
    text: str
    before: bool = False


@dataclass(frozen=True)
class Crew:
    """The processes that run a program together, one for each rank, spread evenly over ``nodes`` machines."""

    ranks: int = 1
    nodes: int = 1


ALONE, TWO_RANKS, TWO_NODES = Crew(), Crew(ranks=2), Crew(ranks=2, nodes=2)


@dataclass(frozen=True)
class Replay:
    """How a replay shows a problem and its repair in the user's program.

    ``watch``: lines that detect a silent bug; the last one is an ``assert`` that fails if the bug is there. Without
    them, the bug is expected to raise. ``repairs``: new text for nodes (alternatives), which makes the repaired arm if
    the problem has no rewrite. ``instead``: lines to use if none of these is possible.

    ``crew``: the processes that run the program, if one is not enough. ``gpus``: the minimum number of GPUs,
    if it is not that of the experiment.
    ``workers``: keep the worker processes of data loaders. ``saved_on``: the device of checkpoints that the program
    loads and other programs saved. ``along``: methods whose calls belong to the slice.

    ``noted``: new text for both arms that fails if the bug is there. ``right``: whether a program that does not fail is
    free of the bug; otherwise it may only have missed it.
    """

    watch: tuple[Line, ...] = ()
    repairs: tuple[tuple[tuple[cst.CSTNode, str], ...], ...] = ()
    mended: tuple[Line, ...] = ()  # lines to add, as an alternative to ``repairs``
    instead: tuple[Line, ...] = ()
    crew: Crew = ALONE
    gpus: int | None = None
    workers: bool = False
    saved_on: str = "cpu"
    along: tuple[str, ...] = ()
    noted: tuple[tuple[cst.CSTNode, str], ...] = ()
    right: bool = True


@dataclass(frozen=True)
class Problem:
    """A finding of a rule: the node to underline, a message, and the steps that lead there.

    The message says what is wrong and what happens, ``advice`` what to do. Neither ends in a full stop, because the
    condition under which the problem holds goes between the two. ``severity`` overrides the rule's severity.
    ``facts`` are the parameters of the rule's experiment, as plain data; missing ones have the values of the rule's own
    demonstration. ``replay`` is None if running the program does not show the problem. ``for_any_caller``: the code
    itself is to be changed, even if only some of the calls of its function lead to the problem. ``without_gpu`` is the
    message if the problem is there on machines without a GPU only, unless it is the same.

    The analysis fills in the other fields. ``scene``: the path to the node. ``when``: the condition of the finding.
    ``sites``: nodes to report at if ``node`` is in a plain function of another file, the best one first. ``about``: the
    file, class and name of the attribute, if the class was analysed by itself.
    """

    node: cst.CSTNode
    message: str
    trace: tuple[Note, ...] = ()
    advice: str = ""
    rewrite: Rewrite | None = None
    severity: Severity | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    replay: Replay | None = None
    for_any_caller: bool = False
    without_gpu: str = ""
    scene: Scene | None = field(default=None, compare=False)
    when: When | None = None
    sites: tuple[cst.CSTNode, ...] = ()
    about: tuple[str, str, str] | None = None
    # the problem is there only if another program of the project saves this
    if_saved: StateFile | None = None
    # the problem is not there if all that is saved in files of such a name is on the CPU
    unless_on_cpu: str | None = None


Listener = Callable[[Any], Iterator[Problem]]
"""Called with each event of the type it is registered for; yields problems."""


@dataclass(frozen=True)
class Rule:
    """A rule. ``listens`` maps an event type of ``placement_lint.flow.events.schema`` to its check.

    ``since`` is the first version of the rule's package that has the rule.
    """

    code: str
    name: str
    severity: Severity
    page: Page
    listens: Mapping[type, Listener] = field(default_factory=dict)
    default: bool = True
    experiment: Experiment | None = None
    since: str = "0.1.0"

    @property
    def family(self) -> str:
        return family_of(self.code)


def family_of(code: str) -> str:
    """The prefix that the codes of a family share: ``DPL3`` for ``DPL301``."""
    return code[:4]

"""What a rule is: a plain value that says which events it listens to and what it makes of them.

A rule never walks a syntax tree. The flow analysis hands it one event at a time, with concrete abstract
values, and it yields a :class:`Problem` where PyTorch would misbehave.
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


@dataclass(frozen=True)
class Page:
    """A rule's documentation as data: the single source for ``explain``, hover, SARIF and the documentation site.

    ``example`` and ``instead`` are complete Python sources: the first gets the finding, the second does
    not (the tests run both). The other fields are Markdown.
    """

    what: str
    why: str
    example: str
    instead: str
    silent: str
    fix: str = ""


@dataclass(frozen=True)
class Note:
    """A step of a trace, before positions are known: the node and what happened there."""

    node: cst.CSTNode
    message: str


@dataclass(frozen=True)
class Rewrite:
    """A fix before positions are known: new source text for whole nodes."""

    applicability: Applicability
    message: str
    replacements: tuple[tuple[cst.CSTNode, str], ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of Python for a replay: it stands behind the statement of ``node``, or ``before`` it.

    It may use the names that are known there, ``torch``, and the list ``watched`` that all lines share.
    """

    node: cst.CSTNode
    text: str
    before: bool = False


@dataclass(frozen=True)
class Crew:
    """Processes that run a program together, one a rank; ``nodes`` of them on as many machines, evenly."""

    ranks: int = 1
    nodes: int = 1


ALONE, TWO_RANKS, TWO_NODES = Crew(), Crew(ranks=2), Crew(ranks=2, nodes=2)


@dataclass(frozen=True)
class Replay:
    """What a rule adds to the part of the program that shows its problem, where that part is run.

    ``watch`` makes a silent fault loud: its lines end in an ``assert`` that fails where the fault is. A rule that says
    nothing of lines says that its fault raises. ``repairs`` and ``mended`` are how the repaired arm can be written
    where there is no rewrite that could be offered as a fix: new text for nodes, in one way or another, and lines to
    add; ``instead`` are lines for where none of these will do.

    ``crew`` is who runs the program, where one process does not show it, and ``gpus`` how many GPUs there are at least.
    ``workers`` keeps the processes of its loaders, which are otherwise left out. ``saved_on`` is where somebody else's
    checkpoints were saved that the program loads. Calls of the methods ``along`` are part of what is run.

    ``noted`` is new text in each arm, which fails where the fault is. A program that does not fail is ``right``, unless
    it may only not have come by what shows the fault.
    """

    watch: tuple[Line, ...] = ()
    repairs: tuple[tuple[tuple[cst.CSTNode, str], ...], ...] = ()
    mended: tuple[Line, ...] = ()
    instead: tuple[Line, ...] = ()
    crew: Crew = ALONE
    gpus: int = 0
    workers: bool = False
    saved_on: str = "cpu"
    along: tuple[str, ...] = ()
    noted: tuple[tuple[cst.CSTNode, str], ...] = ()
    right: bool = True


@dataclass(frozen=True)
class Problem:
    """What a rule found: the node to underline, a message, and the notes that led there.

    The message says what is wrong and what will happen, ``advice`` what to do about it. Neither ends in a full
    stop: where a problem holds under a condition only, that is said between the two.
    ``severity`` overrides the rule's own where the evidence is weaker (or stronger) than usual. ``facts`` are what
    the rule's experiment is built from, as plain data; what is left out is as in the rule's own demonstration.
    ``replay`` is for running the program itself, None where that shows nothing. The listener fills in ``scene``, which
    says how to get there, and ``when``, under which condition it is reported.

    The analysis adds ``sites``, nodes at which to report it instead where ``node`` is in a plain function of another
    file, the best first; and ``about``, the attribute that it is about, by the file and the name of its class, where
    nothing but the class was looked at.
    """

    node: cst.CSTNode
    message: str
    trace: tuple[Note, ...] = ()
    advice: str = ""
    rewrite: Rewrite | None = None
    severity: Severity | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    replay: Replay | None = None
    scene: Scene | None = field(default=None, compare=False)
    when: When | None = None
    sites: tuple[cst.CSTNode, ...] = ()
    about: tuple[str, str, str] | None = None


Listener = Callable[[Any], Iterator[Problem]]
"""Called with an event of the type it is registered for; yields the problems it sees in it."""


@dataclass(frozen=True)
class Rule:
    """``listens`` maps an event type of ``placement_lint.flow.events.schema`` to the check for it."""

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

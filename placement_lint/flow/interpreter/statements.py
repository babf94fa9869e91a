"""Statements, by node type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeGuard

import libcst as cst

from placement_lint.flow.api.torch_names import GRADIENT_CONTEXTS
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, Condition, answered
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Class,
    Const,
    Device,
    External,
    Function,
    Kind,
    Object,
    Parameters,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.interpreter import (
    calls,
    cuda_guards,
    expressions,
    inline_policy,
    iteration,
    methods,
    narrowing,
    operators,
)
from placement_lint.flow.models import autocast, gather, gradients, named_parameters, registries, scatter
from placement_lint.flow.models.device_choice import DeviceChoices
from placement_lint.flow.state import devices
from placement_lint.flow.state.budget import MOST_IN_LOOPS
from placement_lint.flow.state.classes import SETTER, find, is_module_class
from placement_lint.flow.state.devices import Context
from placement_lint.flow.state.extent import are_data
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.imports import is_missing, running_file
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Around, Calls, Replica, Tried
from placement_lint.flow.state.names import bind, declare_global, import_from, import_name, wanted
from placement_lint.flow.state.program import Program
from placement_lint.source.abstraction import by_kind, of_kind
from placement_lint.source.querying import (
    as_expression,
    assignments_in,
    last_name,
    leaves,
    may_break,
    names_in,
    only_chooses,
    raises,
    returns,
    same_code,
)
from placement_lint.source.walking import nodes_in, nodes_of
from placement_lint.source.wording import source_text

# For a method: the undecorated function, if decorators replace it.
_UNDECORATED = Slot("undecorated")


def execute_body(machine: Machine, body: cst.BaseSuite) -> None:
    """Execute the statements of a block until one leaves it."""
    execute_all(machine, body.body)


def execute_all(machine: Machine, lines: Many[cst.CSTNode]) -> None:
    around = machine.now[Around]
    outer = around.block
    for place, line in enumerate(lines):
        if machine.dead:
            break
        if _is_line(line):
            around.block = (lines, place)
            machine.frames[-1].line = line
            execute_all(machine, line.body)
        else:
            machine.spend()
            if machine.log is not None:
                machine.log.reached(machine, line)
            handler = _EXECUTE.get(type(line))
            if handler is not None and machine.recollection is not None and machine.recollects:
                machine.recollection.execute(machine, line, partial(handler, machine, line))
            elif handler is not None:
                handler(machine, line)
    around.block = outer


_LINES = of_kind(cst.SimpleStatementLine)


def _is_line(node: cst.CSTNode) -> TypeGuard[cst.SimpleStatementLine]:
    return type(node) in _LINES


# --- simple statements -----------------------------------------------------------------------------------------


def _expression(machine: Machine, node: cst.Expr) -> None:
    machine.now[Around].statement = node.value
    expressions.evaluate(machine, node.value)


def _assign(machine: Machine, node: cst.Assign) -> None:
    value = expressions.evaluate(machine, node.value)
    for target in node.targets:
        if not machine.dead:
            expressions.assign(machine, target.target, value, node)


def _annotated_assign(machine: Machine, node: cst.AnnAssign) -> None:
    if node.value is not None:
        expressions.assign(machine, node.target, expressions.evaluate(machine, node.value), node)


def _augmented_assign(machine: Machine, node: cst.AugAssign) -> None:
    with machine.only_updating():
        before = expressions.evaluate(machine, node.target)
    value = expressions.evaluate(machine, node.value)
    if isinstance(before, Object) and before.kind is Kind.LIST and isinstance(node.operator, cst.AddAssign):
        methods.extend_list(machine, before, Arguments((value,)), node)
        return
    machine.signals.tensors.updated(machine, before, value, node)
    sources = (node.target, node.value)
    after = machine.lift(
        lambda one, other: operators.arithmetic(machine, one, other, node.operator, sources, node),
        before,
        value,
    )
    in_place = isinstance(node.target, cst.Attribute) and isinstance(before, Tensor)
    if isinstance(before, Tensor):
        machine.signals.tensors.changed(machine, before, (value,) if in_place else ())
    if not machine.dead and not in_place:
        expressions.assign(machine, node.target, after, node)


def _return(machine: Machine, node: cst.Return) -> None:
    value = expressions.evaluate(machine, node.value) if node.value is not None else NONE
    if not machine.dead:
        if node.value is not None and 0 < machine.now[Replica].depth == len(machine.frames) - 1:
            gather.check(machine, value, node.value)
            scatter.check_returned(machine, value, node.value)
        machine.jump("function", value)


def _raise(machine: Machine, node: cst.Raise) -> None:
    if node.exc is not None:
        expressions.evaluate(machine, node.exc)
    machine.dead = True


def _break(machine: Machine, node: cst.Break) -> None:
    machine.jump("loop")


def _continue(machine: Machine, node: cst.Continue) -> None:
    machine.jump("iteration")


def _assert(machine: Machine, node: cst.Assert) -> None:
    """An asserted condition holds from here on."""
    holds = operators.truth(machine, expressions.evaluate(machine, node.test), node.test)
    if holds is ALWAYS or machine.path.excludes(holds):
        return
    machine.survive(holds)
    machine.tested = machine.tested & holds
    narrowing.narrow(machine, node.test, True)


def _delete(machine: Machine, node: cst.Del) -> None:
    if isinstance(node.target, cst.Name):
        bind(machine, node.target.value, machine.fresh())
    if isinstance(node.target, cst.Subscript):
        owner, key = expressions.evaluate(machine, node.target.value), expressions.key_of(machine, node.target)
        machine.lift(lambda one, other: methods.delete_item(machine, one, other), owner, key)


def _global(machine: Machine, node: cst.Global) -> None:
    for item in node.names:
        declare_global(machine, item.name.value, nonlocal_=False)


def _nonlocal(machine: Machine, node: cst.Nonlocal) -> None:
    for item in node.names:
        declare_global(machine, item.name.value, nonlocal_=True)


def _import(machine: Machine, node: cst.Import) -> None:
    for alias in node.names:
        import_name(machine, alias)


# --- branches and loops ----------------------------------------------------------------------------------------


def _if(machine: Machine, node: cst.If) -> None:
    (holds, guard), saw_gpu = devices.watched(machine, lambda: operators.decision(machine, node.test))
    if machine.dead:
        return
    _note_passing(machine, holds)
    if _moves_anyway(node):
        machine.notes[DeviceChoices].moving_tests.add(node.test)
    machine.now[Around].guards.append(node.test)
    machine.now[Context].sure_of_gpu += saw_gpu
    called = set(machine.notes[Program].called) if machine.frame.function is None and machine.is_script else None
    goes_on: dict[bool, bool] = {}

    def run(answer: bool, block: Callable[[], Value], other: cst.CSTNode | None) -> Value:
        follows = operators.following(machine, node.test) if answer else nullcontext()
        with narrowing.narrowed(machine, node.test, answer), follows:
            if guard is not None:
                cuda_guards.pass_over(machine, guard, other)
            result = block()
            if guard is not None and not machine.dead:
                cuda_guards.settle(machine, guard, other)
        goes_on[answer] = not machine.dead
        return result

    with machine.as_written() if _chooses_after_failure(machine, node, holds) else nullcontext():
        machine.fork(
            (
                (holds, lambda: run(True, lambda: _block(machine, node.body), node.orelse)),
                (holds.negation, lambda: run(False, lambda: _else(machine, node.orelse), node.body)),
            ),
            asks=True,
        )
    if len(goes_on) == 2 and goes_on[True] is not goes_on[False]:
        narrowing.narrow(machine, node.test, goes_on[True])
    if len(goes_on) == 1 and not machine.dead:
        # The other block is not run if something before has raised where it would be: the program leaves there.
        answer, other = (True, node.orelse) if True in goes_on else (False, node.body)
        block = other.body if isinstance(other, cst.Else) else other
        if block is not None and leaves(block):
            machine.frame.returns_early |= returns(block)
            machine.tested = machine.tested & (holds if answer else holds.negation)
    if called is not None:
        program = machine.notes[Program]
        program.called_by_script |= program.called - called
    machine.now[Context].sure_of_gpu -= saw_gpu
    machine.now[Around].guards.pop()


def _chooses_after_failure(machine: Machine, node: cst.If, holds: Condition) -> bool:
    """Whether only something that raised before decides a choice, which is then the same as if nothing had raised.

    A forward chooses no device.
    """
    if machine.now[Calls].in_forward or not _is_decided(machine, holds) or not only_chooses(node):
        return False
    with machine.as_written():
        return not _is_decided(machine, holds)


def _is_decided(machine: Machine, holds: Condition) -> bool:
    return machine.path.excludes(holds) or machine.path.excludes(holds.negation)


def _note_passing(machine: Machine, holds: Condition) -> None:
    """Record that a test of a running loop's variable is true in some iteration: ``if epoch == 3``.

    This excludes loops over known names, where the body is analysed for each name separately.
    """
    if not machine.now[Around].loops:
        return
    bound = {
        name: machine.read(machine.frame.id, name) for loop in machine.now[Around].loops for name in _bound_in(loop)
    }
    variables = frozenset(
        name for name, value in bound.items() if not (isinstance(value, Const) and isinstance(value.value, str))
    )
    for question in {answer.question for cube in holds.cubes for answer in cube.answers}:
        if not variables.isdisjoint(names_in(as_expression(question.source))):
            question.say(passing=True)


def _bound_in(loop: cst.For | cst.While) -> Iterator[str]:
    """The names that a loop binds at the start of each iteration."""
    return _bound_by(loop.target) if isinstance(loop, cst.For) else iter(())


def _bound_by(target: cst.CSTNode) -> Iterator[str]:
    """The names that the target of a loop binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _bound_by(element.value)


def _moves_anyway(node: cst.If) -> bool:
    """``if t.device != d: t = t.to(d)``: the move has the same effect if the test is always true."""
    if not isinstance(node.test, cst.Comparison) or not isinstance(node.test.comparisons[0].operator, cst.NotEqual):
        return False
    asked, device = node.test.left, node.test.comparisons[0].comparator
    line = node.body.body[0] if len(node.body.body) == 1 else None
    assigned = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else line
    if not isinstance(asked, cst.Attribute) or asked.attr.value != "device" or not isinstance(assigned, cst.Assign):
        return False
    tensor, moved = asked.value, assigned.value
    return (
        len(assigned.targets) == 1
        and same_code(assigned.targets[0].target, tensor)
        and isinstance(moved, cst.Call)
        and isinstance(moved.func, cst.Attribute)
        and moved.func.attr.value == "to"
        and same_code(moved.func.value, tensor)
        and len(moved.args) == 1
        and same_code(moved.args[0].value, device)
    )


def _block(machine: Machine, body: cst.BaseSuite) -> Value:
    execute_body(machine, body)
    return NONE


def _else(machine: Machine, node: cst.If | cst.Else | None) -> Value:
    if isinstance(node, cst.If):
        _if(machine, node)
    elif node is not None:
        execute_body(machine, node.body)
    return NONE


def _rounds(machine: Machine) -> Iterator[None]:
    """The iterations to run: a second one sees the effects of the first.

    In the second iteration, inner loops run once because their effects are already known. If these effects depend on a
    question that each inner iteration asks again, they run twice so that one answer does not decide it for all.
    """
    around = machine.now[Around]
    newest = machine.opaque()
    yield
    if around.again and not machine.hangs_on_later(newest):
        return
    before, around.again = around.again, True
    yield
    around.again = before


def _is_too_costly(machine: Machine, place: int) -> bool:
    """Whether the running loops have used so much that one iteration has to stand for the rest.

    The first two iterations of a loop may use more, because what follows often depends on these.
    """
    used = machine.budget.effort - machine.now[Around].effort
    return used > (MOST_IN_LOOPS if place >= 2 else 4 * MOST_IN_LOOPS)


def _for(machine: Machine, node: cst.For) -> None:
    with machine.round_by_round():
        iterable = machine.restrict(expressions.evaluate(machine, node.iter))
        _use_up(machine, iterable, node)

        def over(values: Value) -> Value:
            known = iteration.each(machine, values) if not _counts_tries(node) else None
            if known is None and _groups_by_name(node):
                known = named_parameters.pairs(machine, values)
            if known is not None:
                for place, item in enumerate(known):
                    if _is_too_costly(machine, place) and are_data(machine, known[place:]):
                        _iteration(machine, node, partial(_any_of, machine, known[place:]))
                        break
                    _iteration(machine, node, partial(_same, item))
            else:
                for _ in _rounds(machine):
                    _iteration(machine, node, lambda: iteration.element(machine, values, node.iter))
            return NONE

        def rounds() -> None:
            ways = alternatives(iterable) if _differ(machine, iterable) else [(ALWAYS, iterable)]
            machine.fork([(guard, partial(over, values)) for guard, values in ways], decides=True)

        if not machine.dead:
            _looped(machine, node, rounds)


def _any_of(machine: Machine, items: Many[Value]) -> Value:
    """An unknown one of several values: a number or a text if all of them are."""
    types = {type(item.value).__name__ if isinstance(item, Const) else "" for item in items}
    return machine.fresh(type=types.pop() if len(types) == 1 and types <= {"int", "float", "str"} else "")


def _looped(machine: Machine, node: cst.For | cst.While, rounds: Callable[[], None]) -> None:
    """Run the iterations and then the ``else``, which a ``break`` skips."""

    def whole() -> None:
        machine.scope("rounds", rounds)
        if node.orelse is not None and not machine.dead:
            execute_body(machine, node.orelse.body)

    machine.scope("loop", rounds if node.orelse is None else whole)


def _differ(machine: Machine, iterable: Value) -> bool:
    """Whether alternatives are lists of other known values, or only some of them are."""
    return len({iteration.each(machine, option) for _, option in alternatives(iterable)}) > 1


def _counts_tries(node: cst.For) -> bool:
    """``for attempt in range(10)`` with a break on success: the number of iterations is unknown and irrelevant."""
    called = node.iter.func if isinstance(node.iter, cst.Call) else None
    if not isinstance(called, cst.Name) or called.value != "range" or not may_break(node):
        return False
    return names_in(node.body).isdisjoint(_bound_by(node.target))


def _groups_by_name(node: cst.For) -> bool:
    """Whether a loop may put ``named_parameters()`` into groups: it tests names, collects, and freezes nothing."""
    if not isinstance(node.target, cst.Tuple):
        return False
    bound = {*_bound_by(node.target)}
    return (
        any(not bound.isdisjoint(names_in(each.test)) for each in nodes_of(cst.If, node.body))
        and any(last_name(each.func) == "append" for each in nodes_of(cst.Call, node.body))
        and not any(isinstance(each.target, cst.Attribute) for each in nodes_of(cst.AssignTarget, node.body))
    )


def _use_up(machine: Machine, iterable: Value, node: cst.For) -> None:
    """A loop exhausts a generator, unless it may break."""
    generators = isinstance(iterable, Parameters) or (isinstance(iterable, Object) and iterable.kind is Kind.LIST)
    if generators and not may_break(node):
        gradients.take_all(machine, iterable, node.iter)


def _same(value: Value) -> Value:
    return value


def _iteration(machine: Machine, node: cst.For, item: Callable[[], Value]) -> None:
    def once() -> None:
        expressions.assign(machine, node.target, item(), node)
        execute_body(machine, node.body)

    if not machine.dead:
        machine.now[Around].loops.append(node)
        machine.scope("iteration", once)
        machine.now[Around].loops.pop()


def _while(machine: Machine, node: cst.While) -> None:
    def rounds() -> None:
        for _ in _rounds(machine):
            if not machine.dead:
                _pass(machine, node)

    with machine.round_by_round():
        _looped(machine, node, rounds)


def _pass(machine: Machine, node: cst.While) -> None:
    """Execute the body if the test holds; questions that only the test asks are answered so that it holds."""
    newest = machine.opaque()
    holds = operators.condition(machine, node.test).known_before(newest)

    def body() -> Value:
        machine.now[Around].loops.append(node)
        machine.scope("iteration", lambda: execute_body(machine, node.body))
        machine.now[Around].loops.pop()
        return NONE

    def leave() -> Value:
        machine.jump("loop" if node.orelse is None else "rounds")
        return NONE

    if not machine.dead:
        machine.fork(((holds, body), (holds.negation, leave)), asks=True)


def _try(machine: Machine, node: cst.Try | cst.TryStar) -> None:
    """Execute the body without an exception, or a handler in the state before the body."""
    around = machine.now[Around]
    missing = _missing_import(machine, node)
    if missing is not None:
        _settled_import(machine, node, missing)
        return
    failed = machine.opaque("an exception is raised", usual=False)
    catches = _catches_attribute_errors(node)
    around.expecting_attribute_errors += catches

    def body() -> Value:
        around.tried.append(Tried(len(machine.frames), _dealt_with(node), _resumes(node), _falls_back(node)))
        execute_body(machine, node.body)
        around.tried.pop()
        if node.orelse is not None and not machine.dead:
            execute_body(machine, node.orelse.body)
        return NONE

    branches: list[tuple[Condition, Callable[[], Value]]] = [(answered(failed, False), body)]
    if node.handlers:
        branches.append((answered(failed, True), lambda: _handlers(machine, node)))
    machine.fork(branches if node.handlers else [(ALWAYS, body)])
    around.expecting_attribute_errors -= catches
    if node.finalbody is not None and not machine.dead:
        execute_body(machine, node.finalbody.body)


def _dealt_with(node: cst.Try | cst.TryStar) -> frozenset[str]:
    """The names of the exceptions that handlers catch without raising again."""
    return frozenset(
        name for handler in node.handlers if not _ends_by_raising(handler.body) for name in _caught(handler)
    )


def _caught(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> set[str]:
    """The names of the classes that a handler catches."""
    return {*names_in(handler.type)} if handler.type is not None else {"BaseException"}


def _resumes(node: cst.Try | cst.TryStar) -> bool:
    """Whether the program continues after each handler, or returns a value, instead of giving up."""
    ends = [_end(handler.body) for handler in node.handlers]
    leaves = any(isinstance(end, cst.Break) or (isinstance(end, cst.Return) and end.value is None) for end in ends)
    # An iteration that fails is skipped, unless the loop only looks for one that does not fail.
    skips = any(isinstance(end, cst.Continue) for end in ends) and not _leaves_loop(node.body)
    return not leaves and not skips and not any(raises(handler.body) for handler in node.handlers)


def _end(body: cst.BaseSuite) -> cst.CSTNode | None:
    last = body.body[-1] if body.body else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else None


def _leaves_loop(body: cst.BaseSuite) -> bool:
    return any(isinstance(node, (cst.Break, cst.Return)) for node in nodes_in(body))


def _falls_back(node: cst.Try | cst.TryStar) -> bool:
    """Whether each handler returns a value that is no exit status, or assigns what the body assigns."""
    wanted = {source_text(target) for target, _ in assignments_in(node.body)}
    return all(
        any(
            (isinstance(part, cst.Return) and not isinstance(part.value, (cst.Integer, type(None))))
            or (isinstance(part, cst.Assign) and not wanted.isdisjoint(source_text(one.target) for one in part.targets))
            for part in nodes_in(handler.body)
        )
        for handler in node.handlers
    )


def _ends_by_raising(body: cst.BaseSuite) -> bool:
    return isinstance(_end(body), cst.Raise)


def _catches_attribute_errors(node: cst.Try | cst.TryStar) -> bool:
    """Whether a handler catches AttributeError by name, or all errors of a single statement."""
    alone = len(node.body.body) == 1 and isinstance(node.body.body[0], cst.SimpleStatementLine)
    names = {"AttributeError", "Exception", "BaseException"} if alone else {"AttributeError"}
    return any(not names.isdisjoint(_caught(handler)) for handler in node.handlers)


def _missing_import(machine: Machine, node: cst.Try | cst.TryStar) -> bool | None:
    """Whether an import with an alternative in a handler fails; None if unknown, or if there is no alternative."""
    lines = [part for line in node.body.body if _is_line(line) for part in line.body]
    asked = [one for part in lines if isinstance(part, (cst.Import, cst.ImportFrom)) for one in wanted(part)]
    catching = [_caught(handler) for handler in node.handlers if asked]
    if not any(names & {"ImportError", "ModuleNotFoundError"} for names in catching):
        return None
    answers = [is_missing(machine, one) for one in asked]
    if True in answers:
        return True
    return False if answers and None not in answers else None


def _settled_import(machine: Machine, node: cst.Try | cst.TryStar, missing: bool) -> None:
    if missing:
        _handlers(machine, node)
    else:
        execute_body(machine, node.body)
        if node.orelse is not None and not machine.dead:
            execute_body(machine, node.orelse.body)
    if node.finalbody is not None and not machine.dead:
        execute_body(machine, node.finalbody.body)


def _handlers(machine: Machine, node: cst.Try | cst.TryStar) -> Value:
    def run(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> Value:
        if handler.name is not None and isinstance(handler.name.name, cst.Name):
            bind(machine, handler.name.name.value, machine.fresh())
        execute_body(machine, handler.body)
        return NONE

    return _one_of(machine, [partial(run, handler) for handler in node.handlers])


def _one_of(machine: Machine, runs: list[Callable[[], Value]]) -> Value:
    """Execute exactly one of several blocks under unknown conditions."""
    if len(runs) == 1:
        return runs[0]()
    first = answered(machine.opaque(), True)
    return machine.fork(((first, runs[0]), (first.negation, lambda: _one_of(machine, runs[1:]))))


def _with(machine: Machine, node: cst.With) -> None:
    _with_items(machine, list(node.items), node.body)


def _with_items(machine: Machine, items: list[cst.WithItem], body: cst.BaseSuite) -> None:
    if not items:
        execute_body(machine, body)
        return
    first, *others = items
    value = expressions.evaluate(machine, first.item)
    if first.asname is not None and isinstance(first.asname.name, cst.BaseExpression):
        expressions.assign(machine, first.asname.name, value, first)
    with _manager(machine, first.item, value)(machine, value):
        _with_items(machine, others, body)


def _manager(
    machine: Machine, node: cst.BaseExpression, value: Value
) -> Callable[[Machine, Value], AbstractContextManager[None]]:
    """``with torch.device(d)`` sets the device of factories, ``with torch.cuda.device(k)`` the current GPU.

    Any other context manager may be autocast.
    """
    called = expressions.evaluate(machine, node.func) if isinstance(node, cst.Call) else NONE
    name = next((option.name for _, option in alternatives(called) if isinstance(option, External)), "")
    if name.rpartition(".")[2] in GRADIENT_CONTEXTS:
        gradless = _turns_gradients_off(machine, name, node)
        return lambda machine, _: gradients.without_gradients(machine, gradless)
    if name == "torch.cuda.device":
        return devices.current_device
    if name == "torch.device" or isinstance(value, Device):
        return devices.default_device
    return autocast.entered


def _turns_gradients_off(machine: Machine, name: str, node: cst.BaseExpression) -> bool:
    if name.endswith("set_grad_enabled"):
        given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
        return given is not None and expressions.evaluate(machine, given) == FALSE
    return not name.endswith("enable_grad")


def _match(machine: Machine, node: cst.Match) -> None:
    subject = expressions.evaluate(machine, node.subject)
    _cases(machine, subject, list(node.cases), node)


def _cases(machine: Machine, subject: Value, cases: list[cst.MatchCase], node: cst.Match) -> Value:
    if not cases:
        return NONE
    first, *others = cases
    holds = ALWAYS
    if isinstance(first.pattern, cst.MatchValue):
        expected = expressions.evaluate(machine, first.pattern.value)
        text = f"{machine.text(node.subject)} == {machine.text(first.pattern.value)}"
        question = machine.equality(subject, expected, text)
        if isinstance(subject, Const) and isinstance(expected, Const):
            holds = ALWAYS if subject == expected else ALWAYS.negation
        else:
            holds = answered(question, True)
    elif not isinstance(first.pattern, cst.MatchAs) or first.pattern.pattern is not None:
        holds = answered(machine.opaque(node.subject), True)
    if isinstance(first.pattern, cst.MatchAs) and first.pattern.name is not None:
        bind(machine, first.pattern.name.value, subject)
    return machine.fork(
        (
            (holds, lambda: _block(machine, first.body)),
            (holds.negation, lambda: _cases(machine, subject, others, node)),
        ),
        asks=True,
    )


# --- definitions -----------------------------------------------------------------------------------------------


def _define_function(machine: Machine, node: cst.FunctionDef) -> None:
    names = tuple(_decorator_name(machine, decorator) for decorator in node.decorators)
    function = Function(node, machine.enclose(), node.name.value, None, names)
    if any(name.endswith((".setter", ".deleter")) for name in names):
        return
    calls.compute_defaults(machine, function)
    bind(machine, node.name.value, _decorated(machine, function, node) if node.decorators else function)
    if machine.at_home:
        machine.notes[Program].functions.setdefault(node, function)


def _decorated(machine: Machine, value: Value, node: cst.FunctionDef | cst.ClassDef) -> Value:
    """The function or class as the program's decorators return it; a library's are assumed to return it unchanged.

    The same holds for decorators of other files that only register it, such as ``@register_model``, or are unrelated to
    tensors: a file may have a hundred decorated functions.
    """
    for decorator in reversed(node.decorators):
        maker = expressions.evaluate(machine, decorator.decorator)
        if _is_transparent(machine, maker):
            continue
        names = value.decorators if isinstance(value, Function) else ()
        value = calls.call(machine, maker, Arguments((value,)), _as_call(decorator.decorator))
        machine.dead = False
        if isinstance(value, Function):
            # A property stays a property.
            value = replace(value, decorators=names)
    return value


def _is_transparent(machine: Machine, decorator: Value) -> bool:
    """Whether a decorator preserves the behaviour of its function or class, as far as it is relevant."""
    if isinstance(decorator, Class):
        return all(find(machine, decorator, name) is None for name in ("__call__", "__get__"))
    if registries.registers(machine, decorator):
        return False
    function = decorator.function if isinstance(decorator, Bound) else decorator
    return not isinstance(function, Function) or inline_policy.hands_back(machine, function)


def _as_call(decorator: cst.BaseExpression) -> cst.Call:
    """A call node for the application of a decorator, which has none in the source."""
    return cst.Call(func=decorator)


def _decorator_name(machine: Machine, node: cst.Decorator) -> str:
    target = node.decorator.func if isinstance(node.decorator, cst.Call) else node.decorator
    return machine.text(target)


def _define_class(machine: Machine, node: cst.ClassDef) -> None:
    """Define a class; if the program chooses a base class, there is one class for each alternative."""
    bases = tuple(expressions.evaluate(machine, base.value) for base in node.bases if base.star == "")
    defined: Value = NONE
    if any(isinstance(option, Class) for base in bases for _, option in alternatives(base)):
        defined = machine.lift(lambda *options: _define_with(machine, node, options), *bases)
    if defined != TRUE:
        _define_with(machine, node, bases)


def _define_with(machine: Machine, node: cst.ClassDef, bases: tuple[Value, ...]) -> Value:
    name, fields = node.name.value, tuple(_fields(node))
    cls = Class(machine.new_namespace(), name, bases, fields, is_module_class(bases), running_file(machine))
    machine.namespaces.definitions[cls.id] = node
    bind(machine, name, cls)
    if cls.module:
        machine.notes[Program].module_classes.add(node)
    if machine.at_home:
        machine.notes[Program].classes.append(cls)
    machine.enclose()
    for line in node.body.body:
        define = _IN_CLASS.get(type(line))
        if define is not None:
            define(machine, cls, line)
    if node.decorators and (made := _decorated(machine, cls, node)) != cls:
        bind(machine, name, made)
    return TRUE


def _fields(node: cst.ClassDef) -> Iterator[str]:
    """``x: int = 0``: the annotated names in the body of a class, which are the arguments of a dataclass."""
    for line in node.body.body:
        for statement in line.body if _is_line(line) else ():
            if isinstance(statement, cst.AnnAssign) and isinstance(statement.target, cst.Name):
                yield statement.target.value


def _method(machine: Machine, cls: Class, node: cst.FunctionDef) -> None:
    names = tuple(_decorator_name(machine, decorator) for decorator in node.decorators)
    function = Function(node, machine.frame.id, node.name.value, cls, names)
    if any(name.endswith(".setter") for name in names):
        machine.write(cls.id, SETTER.of(node.name.value), function)
    if any(name.endswith((".setter", ".deleter")) for name in names):
        return
    calls.compute_defaults(machine, function)
    made = _decorated(machine, function, node) if node.decorators else function
    if made != function:
        machine.write(cls.id, _UNDECORATED.of(node.name.value), function)
    machine.write(cls.id, node.name.value, made)


def _class_variables(machine: Machine, cls: Class, line: cst.SimpleStatementLine) -> None:
    for statement in line.body:
        if isinstance(statement, cst.Assign):
            targets = [target.target for target in statement.targets]
        elif isinstance(statement, cst.AnnAssign):
            targets = [statement.target]
        else:
            continue
        if statement.value is not None:
            value = expressions.evaluate(machine, statement.value)
            for target in targets:
                if isinstance(target, cst.Name):
                    machine.write(cls.id, target.value, value)


_IN_CLASS: dict[type, Callable[..., None]] = by_kind(
    {cst.FunctionDef: _method, cst.SimpleStatementLine: _class_variables}
)


_TABLE: dict[type, Callable[..., None]] = {
    cst.Expr: _expression,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated_assign,
    cst.AugAssign: _augmented_assign,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Break: _break,
    cst.Continue: _continue,
    cst.Assert: _assert,
    cst.Del: _delete,
    cst.Global: _global,
    cst.Nonlocal: _nonlocal,
    cst.Import: _import,
    cst.ImportFrom: lambda machine, node: import_from(machine, node),
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.With: _with,
    cst.Match: _match,
    cst.FunctionDef: _define_function,
    cst.ClassDef: _define_class,
}
_EXECUTE = by_kind(_TABLE)

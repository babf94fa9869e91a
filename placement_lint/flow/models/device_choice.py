"""A program's choice of device, and the places that ask for CUDA without regard to it.

A choice is a device with a CPU alternative that something is moved to, or a flag under which something is moved to
CUDA. A request is an explicit ``.cuda()``, ``"cuda"`` or the like. They are matched once the whole program is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import libcst as cst

from placement_lint.flow.api.torch_names import CUDA_CONSTRUCTORS, LEGACY_TYPE
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import (
    ALWAYS,
    ANY_MACHINE,
    ELSEWHERE,
    MANY_GPUS,
    NEVER,
    NO_GPU,
    ONE_GPU,
    SETTING,
    Answer,
    Condition,
    Cube,
    Question,
    answered,
    is_precondition,
    machines,
    of,
)
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    CPU,
    FALSE,
    NAMESPACE,
    NONE,
    OWN,
    Choice,
    Comparison,
    Const,
    Device,
    External,
    Mapping,
    Object,
    Place,
    Sequence,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
    is_option,
)
from placement_lint.flow.events.schema import CpuRefused, CudaRequested, Scene
from placement_lint.flow.models import lightning, modules, visible_devices
from placement_lint.flow.state.devices import Context, as_place, current_is_chosen
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.names import names_of, value_of, visible
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.flow.state.options import default, looks_into_command_line
from placement_lint.flow.state.program import Program
from placement_lint.flow.state.records import Chosen, Request
from placement_lint.rule import Note
from placement_lint.source.abstract import meaning
from placement_lint.source.querying import as_expression, is_literal, last_comparison, last_name, words_in
from placement_lint.source.remembered import remembered
from placement_lint.source.walking import children
from placement_lint.source.wording import source_text


@dataclass
class DeviceChoices(Notes):
    """The choices of a device, and what asks for CUDA whatever they are."""

    chosen: list[Chosen] = noted(list, Use.AT_END | Use.WEIGHED)
    requests: list[Request] = noted(list, Use.AT_END | Use.WEIGHED)
    # how tensors are reached that are taken from a GPU to the host
    fetched: list[Condition] = noted(list, Use.AT_END)
    # where tensors were moved to a GPU from which they, or what was computed from them without a module, came back
    returned: set[cst.CSTNode] = noted(set, Use.AT_END)
    # settings of the script itself that say whether CUDA is used, with how they are written and what they are set to
    settings: dict[Question, tuple[cst.BaseExpression, Const]] = noted(dict, Use.AT_END)
    # the options of the command line that keep a program off CUDA, by name, with where they are declared
    declared: dict[str, cst.Call] = noted(dict, Use.AT_END)
    # the results of ``parse_args``
    namespaces: list[Symbol] = noted(list, Use.AT_END)
    # tests of a tensor's device under which it is moved to that very device, and nothing else
    moving_tests: set[cst.BaseExpression] = noted(set, Use.AT_END)


def used(
    machine: Machine,
    target: Value,
    node: cst.Call,
    written: cst.BaseExpression | None = None,
    *,
    by_type: bool = False,
) -> None:
    """Something is moved to ``target``, or made there: if that is the CPU on some machines, the program chooses.

    ``by_type`` if what is written is a type of tensors.
    """
    written = written or (node.args[0].value if node.args else None)
    # The device of another tensor does not show what the program would choose.
    if written is not None and _is_where_a_tensor_is(machine, written):
        return
    if any(isinstance(option, Device) and option.found for _, option in alternatives(target)):
        return
    named = [(guard, option) for guard, option in alternatives(target) if not isinstance(option, Tensor)]
    places = [(guard, as_place(option)) for guard, option in named]
    for _, place in places:
        if isinstance(place, Device) and isinstance(place.index, Symbol):
            visible_devices.name_device(machine, place, node, node)
    on_cpu = [guard for guard, place in places if place == CPU]
    for cube in on_cpu[0].cubes if on_cpu else ():
        for answer in cube.answers if cube.machines != NO_GPU else ():
            answer.question.say(chooses_cpu=answer.given)
    entry = machine.now[Calls].entry
    options = [
        (option, isinstance(place, Device) or _is_number(option))
        for _, place in places
        if (option := _option(place)) is not None and not _is_item(option) and not entry
    ]
    if not options and not (on_cpu and len(places) > 1):
        return
    text = machine.text(written) if written is not None else "the device"
    text = f"the type {text}" if by_type else text
    note = Note(node, f"{text} is used here" if by_type else f"`{text}` is used here")
    is_own = machine.at_home and not entry
    if on_cpu and len(places) > 1 and (is_own or _is_about_devices(machine, on_cpu[0])):
        machine.notes[DeviceChoices].chosen.append(
            Chosen(
                on_cpu[0],
                on_cpu[0],
                note,
                text,
                helpful=_is_helpful(machine, on_cpu[0]),
                function=machine.scene.function,
                by_script=_is_script(machine),
                entry=entry,
            )
        )
    for option, by_index in options:
        elsewhere = machine.question(("elsewhere", option), text=option.text or text)
        elsewhere.say(predicate=ELSEWHERE)
        machine.notes[DeviceChoices].chosen.append(
            Chosen(
                answered(elsewhere, True),
                answered(elsewhere, True),
                note,
                text,
                option,
                by_index=by_index,
                function=machine.scene.function,
                by_script=_is_script(machine),
            )
        )


# The names of options that keep a program off CUDA.
_WORDS_FOR_CPU = frozenset({"cpu", "use_cpu", "force_cpu", "cpu_only", "on_cpu"})
_WORDS_AGAINST_CUDA = frozenset({"no_cuda", "no_gpu", "disable_cuda", "disable_gpu", "without_cuda", "without_gpu"})


def notice_option(machine: Machine, arguments: Arguments, node: cst.Call) -> None:
    """``parser.add_argument("--no_cuda", action="store_true")``"""
    for given in arguments.positional if arguments.keyword("action") == Const("store_true") else ():
        name = str(given.value).lstrip("-").replace("-", "_") if isinstance(given, Const) else ""
        if name in _WORDS_FOR_CPU | _WORDS_AGAINST_CUDA:
            machine.notes[DeviceChoices].declared[name] = node


def parsed(machine: Machine, result: Value) -> None:
    """The command line is parsed."""
    values = result.items if isinstance(result, Sequence) else (result,)
    machine.notes[DeviceChoices].namespaces.extend(
        value for value in values if isinstance(value, Symbol) and value.type == NAMESPACE
    )


def _unasked(machine: Machine) -> Iterator[Chosen]:
    """The choices that the program offers to its user and never asks for."""
    noted = machine.notes[DeviceChoices]
    for namespace in noted.namespaces if not machine.notes[Program].overlooks else ():
        for name, node in noted.declared.items():
            is_known = machine.known_part(namespace.id, name) is not None or machine.read(namespace.id, name)
            if is_known or default(machine, namespace, name) != FALSE:
                continue
            text = f"{next(names_of(machine, machine.module_frame, namespace), 'args')}.{name}"
            given = machine.part(namespace.id, name, text, namespace, preferred=FALSE)
            on_cpu = answered(machine.question(given, text=text), True)
            yield Chosen(on_cpu, on_cpu, Note(node, "the option is declared here, and nothing reads it"), text)


def _is_about_devices(machine: Machine, choice: Condition) -> bool:
    """Whether it depends on the machine, or on flags and options: other questions of other files are not choices.

    Where a module already is, its caller has chosen.
    """

    def decides(question: Question) -> bool:
        flag = _is_flag(question) and not _asks_for_entry(question) and question is not machine.own_on_gpu
        return flag or _is_set_by_user(question)

    return all(
        cube.machines != ANY_MACHINE or any(decides(answer.question) for answer in cube.answers)
        for cube in choice.cubes
    )


def _asks_for_entry(question: Question) -> bool:
    """Whether it is ``device in tables``: that says what has been made there, and chooses nothing."""
    return isinstance(question.subject, tuple) and question.subject[0] == cst.In.__name__


def _is_where_a_tensor_is(machine: Machine, source: cst.BaseExpression) -> bool:
    """Whether it is ``x.device`` of a tensor."""
    if not isinstance(source, cst.Attribute) or source.attr.value != "device":
        return False
    owner = value_of(machine, source.value)
    return owner is not None and any(isinstance(option, Tensor) for _, option in alternatives(owner))


def _is_script(machine: Machine) -> bool:
    return machine.frame.function is None and machine.is_script


def _is_helpful(machine: Machine, choice: Condition) -> bool:
    return not machine.at_home and not any(cube.answers for cube in choice.cubes)


def _option(place: Place | None) -> Symbol | None:
    """The command-line option that a device, or its index, comes from."""
    symbol = place.index if isinstance(place, Device) else place
    return symbol if isinstance(symbol, Symbol) and is_option(symbol) else None


def _is_number(option: Symbol) -> bool:
    """Whether an option is a number by default: ``x.to(args.gpu)`` then goes to the GPU of that number."""
    return option.preferred is not None and type(option.preferred.value) is int


def _is_item(option: Symbol) -> bool:
    """``args.gpus[0]`` is one of several GPUs, which DataParallel takes care of."""
    return isinstance(option.parent, Symbol) and option.parent.type != NAMESPACE


def is_one_card(place: Place) -> bool:
    """Whether a place is the GPU of a number that the command line gives: the same for all replicas."""
    return isinstance(place, Device) and place.kind == "cuda" and _option(place) is not None


def differ(machine: Machine, one: Place, other: Place) -> Condition:
    """When two places differ, as far as is known."""
    verdict = compare(one, other)
    if verdict is Comparison.UNKNOWN and CPU in (one, other):
        return named_away(machine, other if one == CPU else one)
    return ALWAYS if verdict is Comparison.DIFFERENT else NEVER


def named_away(machine: Machine, place: Place) -> Condition:
    """When a place that an option of the command line names is not the CPU: it is there to name a GPU."""
    option = _option(place)
    if option is None:
        return NEVER
    return answered(machine.equality(option, Const("cpu"), f'{option.text} == "cpu"'), False)


def request(
    machine: Machine,
    how: str | cst.CSTNode,
    node: cst.CSTNode,
    module: Object | Symbol | None = None,
    written: cst.BaseExpression | None = None,
    *,
    fixed: bool = False,
    current: Value | None = None,
    number: Symbol | None = None,
) -> None:
    """CUDA is requested explicitly; ``nn.CrossEntropyLoss().cuda()`` has nothing to move, on any machine.

    ``x.cuda(args.gpu)`` needs CUDA, whatever the ``number`` is.
    """
    if machine.now[Calls].standalone and not asks_about_devices(machine.tested & machine.decided):
        lightning.requested(machine, how, node)
    if machine.now[Context].worker is not None:
        return
    if machine.now[Context].sure_of_gpu or machine.does_without("AssertionError", "RuntimeError"):
        return
    if (
        written is not None
        and machine.path.excludes(machines(NO_GPU))
        and not machine.tested.excludes(machines(NO_GPU))
    ):
        # A variable may hold CUDA here only because an exception was raised where it holds something else.
        return
    scene = replace(machine.scene, reach=machine.tested & machine.decided if written is None else machine.path)
    if module is None or modules.has_parameters(machine, module) is not False:
        follows, names = current_is_chosen(machine), visible(machine)
        beside = machine.now[Context].beside_gpu > 0
        machine.notes[DeviceChoices].requests.append(
            Request(node, scene, how, written, follows, names, machine.at_home, fixed, current, number, beside)
        )
    # A variable that is CUDA here only by a flag of its own was chosen before, whatever the tests around its use are.
    chosen_before = written is not None and bool(_flags_in(machine.path) - _flags_in(machine.tested))
    if current is None and not chosen_before:
        _note_guard(machine, node, module)


def _note_guard(machine: Machine, node: cst.CSTNode, module: Object | Symbol | None) -> None:
    """Something is moved to CUDA: if a test of the program guards that, it chooses the device."""
    guarding = _device_flags(machine.tested)
    receiver = machine.frame.receiver
    # By itself, a function may be given anything; what ``__init__`` chooses holds for all methods of the object.
    of_object = isinstance(receiver, Object) and machine.constructing(receiver)
    if guarding is not None and (of_object or not machine.now[Calls].standalone):
        text = _flag_text(machine.tested)
        note = Note(node, f"moved only {text} here")
        helpful = _is_helpful(machine, guarding)
        by_script = _is_script(machine)
        entry = machine.now[Calls].entry
        chosen = Chosen(
            guarding.negation, _none_of(guarding), note, text, helpful=helpful, by_script=by_script, entry=entry
        )
        of_module = module is not None and modules.is_module(machine, module)
        machine.notes[DeviceChoices].chosen.append(replace(chosen, of_module=of_module))


def request_literal(
    machine: Machine,
    given: Value | None,
    source: cst.BaseExpression | None,
    how: str | cst.CSTNode,
    node: cst.CSTNode,
    module: Object | Symbol | None = None,
    current: Value | None = None,
) -> None:
    """The same where an argument says it: a literal ``"cuda"``, ``"cuda:0"`` or index, wherever that stands."""
    if source is None or not isinstance(given, (Const, Device)):
        return
    place = as_place(given)
    if isinstance(place, Device) and place.kind == "cuda":
        if isinstance(given, Const):
            visible_devices.name_device(machine, place, how, node, _is_literal(source))
        if _is_literal(source):
            request(machine, how, node, module, fixed=current is not None, current=current)
        elif place.written is not None:
            number = place.index if isinstance(place.index, Symbol) else None
            request(machine, place.written, node, module, place.written, current=current, number=number)


def request_current(machine: Machine, given: Value, node: cst.Call) -> None:
    """``torch.cuda.set_device(given)`` needs CUDA; a negative number, as an option may be, changes nothing."""

    def request_one(option: Value) -> Value:
        if isinstance(option, (Const, Device)):
            request_literal(machine, option, argument(node, 0, "device"), node, node, current=option)
        elif isinstance(option, Symbol) and is_number(option.preferred) and not _names_process(option):
            request(machine, node, node, fixed=True, current=option)
        return NONE

    with machine.as_written():
        machine.lift(request_one, given)


def is_number(value: Const | None) -> bool:
    """Whether it is the number of a GPU."""
    return value is not None and type(value.value) is int and value.value >= 0


# What ``x.get_device()`` is of a tensor on the CPU.
NO_DEVICE = Const(-1)


def without_cpu(machine: Machine, given: Value, source: cst.BaseExpression | None, node: cst.Call) -> Value:
    """``x.cuda(torch.device("cpu"))`` raises on each machine, and so does each use of -1 as the number of a GPU.

    If execution continues, the device is the CPU.
    """
    if source is not None and not machine.now[Context].sure_of_gpu and not machine.does_without("RuntimeError"):
        _refuse_cpu(machine, given, source, node)
    with machine.as_written():
        return machine.lift(lambda option: CPU if option == NO_DEVICE else option, given)


def _refuse_cpu(machine: Machine, given: Value, source: cst.BaseExpression, node: cst.Call) -> None:
    only_cuda = isinstance(node.func, cst.Attribute) and node.func.attr.value == "cuda"
    given = machine.restrict(given)
    if isinstance(given, Choice) and _device_flags(machine.tested) is not None:
        # Who asks for a GPU by an option has one, and the variable its number.
        return
    for guard, option in alternatives(given):
        refused = ALWAYS if option == NO_DEVICE else _is_cpu(machine, option) if only_cuda else NEVER
        scene = machine.scene
        if (when := scene.when & guard & refused).possible:
            machine.emit(CpuRefused(node, replace(scene, when=when), source, option == NO_DEVICE))


def _is_cpu(machine: Machine, device: Value) -> Condition:
    """When a device is the CPU: one of the command line may be if things are moved there, as may that of a Trainer."""
    if device == OWN and lightning.in_module(machine):
        return lightning.on_cpu(machine)
    if isinstance(device, Symbol):
        default = device.preferred
        named = default is not None and isinstance(default.value, str) and as_place(default) is not None
        chosen = machine.notes[DeviceChoices].chosen
        moves_there = any(one.option == device and not one.by_index for one in chosen)
        is_open = named and moves_there and not asks_about_devices(machine.tested)
        return named_away(machine, device).negation if is_open else NEVER
    return ALWAYS if not isinstance(device, Tensor) and as_place(device) == CPU else NEVER


def fetched(machine: Machine, tensor: Tensor) -> None:
    """``t.cpu()`` of what is on a GPU."""
    if isinstance(tensor.place, Device) and tensor.place.kind == "cuda" and not machine.now[Calls].standalone:
        machine.notes[DeviceChoices].fetched.append(machine.tested & machine.decided)
        machine.notes[DeviceChoices].returned.update(note.node for note in tensor.history)


def argument(node: cst.Call, position: int, name: str) -> cst.BaseExpression | None:
    """The source of an argument."""
    named = next((arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == name), None)
    if named is None and position < len(node.args) and node.args[position].keyword is None:
        return node.args[position].value
    return named


def _is_literal(source: cst.BaseExpression) -> bool:
    if isinstance(source, cst.Call):
        return bool(source.args) and _is_literal(source.args[0].value)
    return isinstance(source, (cst.SimpleString, cst.Integer))


def type_chosen(machine: Machine, given: Value, node: cst.Call, module: Object | Symbol | None = None) -> Value:
    """Where ``x.type(given)`` moves: a tensor type names a place, which may be chosen; a dtype names none."""
    if isinstance(given, (External, Const)) and _place_of_type(machine, given) == Device("cuda"):
        request(machine, node, node, module, fixed=True)
    with machine.as_written():
        places = machine.lift(lambda option: _place_of_type(machine, option), given)
    used(machine, places, node, by_type=True)
    return places


def type_called(machine: Machine, types: Choice, node: cst.Call) -> None:
    """``Tensor(2, 3)``, where ``Tensor`` is one of several types: the program chooses where its tensors are."""
    if _is_cuda_type_among(types):
        with machine.as_written():
            places = machine.lift(partial(_place_of_type, machine), types)
        used(machine, places, node, node.func, by_type=True)


def request_type(machine: Machine, name: str, node: cst.Call) -> None:
    """``torch.cuda.FloatTensor(2, 3)`` asks for CUDA, unless the program has chosen this type among others."""
    callee = value_of(machine, node.func)
    if not (isinstance(callee, Choice) and _is_cuda_type_among(callee)):
        request(machine, f"{name}(…)", node)


def _is_cuda_type_among(types: Choice) -> bool:
    return any(isinstance(one, External) and one.name in CUDA_CONSTRUCTORS for _, one in types.alternatives)


def _place_of_type(machine: Machine, given: Value) -> Value:
    text = given.name if isinstance(given, External) else given.value if isinstance(given, Const) else None
    if isinstance(text, str):
        on_cpu = replace(CPU, guard=given.guard) if isinstance(given, External) else CPU
        return NONE if not LEGACY_TYPE.fullmatch(text) else Device("cuda") if text in CUDA_CONSTRUCTORS else on_cpu
    return NONE if isinstance(given, Symbol) and given.type == "torch.dtype" else machine.fresh()


def _device_flags(reach: Condition) -> Condition | None:
    """The part of a path that decides about CUDA; None where nothing does, on one of the ways that lead there."""
    decided = [_flags_of(cube) for cube in reach.cubes]
    cubes = [cube for cube in decided if cube is not None]
    return of(cubes) if cubes and len(cubes) == len(decided) else None


def _flags_in(condition: Condition) -> set[Question]:
    return {answer.question for cube in condition.cubes for answer in cube.answers if _chooses(answer.question)}


def _flags_of(cube: Cube) -> Cube | None:
    answers = frozenset(
        answer for answer in cube.answers if _chooses(answer.question) and not is_precondition(cube, answer)
    )
    # That there are several GPUs says that something is spread over them, and not where it goes otherwise.
    excludes_cpu = cube.machines == ONE_GPU | MANY_GPUS
    if not answers and not excludes_cpu:
        return None
    return Cube(cube.machines if excludes_cpu else ANY_MACHINE, answers)


def setting(machine: Machine, test: cst.CSTNode, value: Const) -> Condition | None:
    """The condition that ``if USE_CUDA:`` tests, of a setting that is written in the script for its user to edit."""
    if not isinstance(test, (cst.Name, cst.Attribute, cst.Subscript)) or not isinstance(value.value, bool):
        return None
    variable: cst.BaseExpression = test
    while isinstance(variable, (cst.Attribute, cst.Subscript)):
        variable = variable.value
    is_local = machine.frame.id != machine.module_frame and machine.read(machine.frame.id, last_name(variable))
    if is_local or not machine.at_home or not _name_gpu(_words(test), ("cuda", "gpu")):
        return None
    if _setting_value(machine, test) != value:
        return None
    question = machine.question((SETTING, source_text(test)), text=test)
    machine.notes[DeviceChoices].settings.setdefault(question, (test, value))
    return answered(question, True)


def assume_settings(machine: Machine, tested: Condition) -> None:
    """Continue with what the script sets, where the program tests it."""
    settings = machine.notes[DeviceChoices].settings
    for cube in tested.cubes if settings else ():
        for answer in cube.answers:
            if answer.question in settings:
                machine.assume(answered(answer.question, bool(settings[answer.question][1].value)))


def _setting_value(machine: Machine, test: cst.BaseExpression) -> Value | None:
    """The value of a variable, its attribute, or its item of a literal key."""
    if not isinstance(test, cst.Subscript):
        value = value_of(machine, test)
        return machine.restrict(value) if value is not None else None
    owner = value_of(machine, test.value)
    items = machine.read(owner.id, MAPPING) if isinstance(owner, Object) else None
    index = test.slice[0].slice if len(test.slice) == 1 else None
    key = index.value if isinstance(index, cst.Index) else None
    return items.get(meaning(key)) if isinstance(items, Mapping) and isinstance(key, cst.SimpleString) else None


def _was_changed(machine: Machine, chosen: Chosen) -> bool:
    """Whether it depends on a variable that is no setting, as the program gives it another value."""
    settings = machine.notes[DeviceChoices].settings
    asked = {answer.question for cube in chosen.on_cpu.cubes for answer in cube.answers}
    return any(_setting_value(machine, settings[one][0]) != settings[one][1] for one in asked & settings.keys())


def _none_of(flags: Condition) -> Condition:
    """The condition under which each flag excludes CUDA; one that chooses only between two ways to CUDA is none."""
    given = {(answer.question, answer.given) for cube in flags.cubes for answer in cube.answers}
    result = ALWAYS
    for cube in flags.cubes:
        result = result & (ALWAYS if cube.machines == ANY_MACHINE else machines(ANY_MACHINE & ~cube.machines))
    for question, answer in given:
        if (question, not answer) not in given:
            result = result & answered(question, not answer)
    return result


_WORDS_FOR_CUDA = ("cuda", "gpu", "device", "accel")
# That no index is given often means all the GPUs; sizes are the same wherever ``labels_cuda`` is.
_OF_ELSE = frozenset({"None", "size", "shape"})
# Parts of names for numbers of GPUs.
_OF_COUNTS = frozenset({"n", "num", "number", "count", "ngpu", "ngpus", "gpus", "devices"})
# Calls that leave what they are given the flag that it is.
_LEAVE_FLAG = frozenset({"bool", "int", "len", "str", "getattr", "get", "getenv", "lower", "strip"})


def _is_flag(question: Question) -> bool:
    """Whether it says if CUDA is used at all."""
    test = as_expression(question.source)
    about_cuda = question.predicate is ELSEWHERE or _names_device(test)
    return about_cuda and not _is_of_else(test) and not _asks_where_something_is(question)


@remembered
def _names_device(test: cst.CSTNode) -> bool:
    words = {*_words(test)}
    return _name_gpu(words, _WORDS_FOR_CUDA) or not words.isdisjoint(_WORDS_FOR_CPU)


@remembered
def _is_of_else(test: cst.CSTNode) -> bool:
    return not _OF_ELSE.isdisjoint(_words(test)) or _counts(test)


def _name_gpu(words: Iterable[str], parts: Iterable[str]) -> bool:
    return any(part in word.lower() for word in words for part in parts)


def _words(test: cst.CSTNode) -> Iterator[str]:
    """The names and strings in a test: ``accuracy(net, device=d) > best`` is not about the device."""
    waiting = [test]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (cst.Name, cst.SimpleString)):
            yield node.value
        is_other = isinstance(node, cst.Call) and last_name(node.func) not in _LEAVE_FLAG
        waiting.extend([node.func] if isinstance(node, cst.Call) and is_other else children(node))


def _counts(test: cst.CSTNode) -> bool:
    """Whether it is ``len(gpus) > 1`` or ``n_gpu == 1``: that says how many there are, and not if there are any."""
    comparison = last_comparison(test)
    last = comparison.comparisons[-1] if comparison is not None else None
    if comparison is None or last is None or not isinstance(last.comparator, cst.Integer):
        return False
    if isinstance(last.operator, (cst.GreaterThan, cst.LessThanEqual)):
        return not is_literal(last.comparator, 0)
    if isinstance(last.operator, (cst.GreaterThanEqual, cst.LessThan)):
        return not is_literal(last.comparator, 0, 1)
    same = isinstance(last.operator, (cst.Equal, cst.NotEqual))
    return same and not is_literal(last.comparator, 0) and _is_count(comparison.left)


def _is_count(expression: cst.BaseExpression) -> bool:
    """Whether it is a number of GPUs: ``--cuda 1`` is a flag."""
    if isinstance(expression, cst.Call):
        return last_name(expression.func) in ("len", "device_count")
    return not _OF_COUNTS.isdisjoint(last_name(expression).lower().split("_"))


def _asks_where_something_is(question: Question) -> bool:
    """Whether it is ``x.is_cuda`` of anything but the command line: that follows what was chosen elsewhere.

    ``isinstance(x, torch.cuda.FloatTensor)`` is the same.
    """
    subject = question.subject
    if isinstance(subject, tuple):
        return any(isinstance(one, External) and one.name.startswith(_CUDA_TYPES) for one in subject)
    if not isinstance(subject, Symbol) or is_option(subject):
        return False
    return last_name(as_expression(subject.source)) == "is_cuda"


# Of this module programs test for the types of tensors only.
_CUDA_TYPES = "torch.cuda."


def _chooses(question: Question) -> bool:
    """Whether it is a flag of the program's; a value that the analysis lost track of may be an earlier choice."""
    symbol = question.subject
    was_lost = isinstance(symbol, Symbol) and symbol.parent is None and isinstance(symbol.source, str)
    return _is_flag(question) and not was_lost


def _flag_text(reach: Condition) -> str:
    flag = next((answer for cube in reach.cubes for answer in cube.answers if _chooses(answer.question)), None)
    if flag is None:
        return "where CUDA is available"
    return f"under `{flag.question.text}`" if flag.given else f"where `{flag.question.text}` is false"


def resolve(machine: Machine) -> set[cst.CSTNode]:
    """Report every request that is reached where some choice falls elsewhere; their nodes."""
    noted = machine.notes[DeviceChoices]
    noted.requests = _executions(noted.requests)
    noted.chosen.extend(_unasked(machine))
    by_node: dict[tuple[cst.CSTNode, tuple[cst.CSTNode, ...]], list[Request]] = {}
    for asked in noted.requests:
        by_node.setdefault((asked.node, asked.scene.entry), []).append(asked)
    noted.chosen = [
        chosen
        for chosen in _distinct(noted.chosen)
        if not _is_about_else(machine, chosen) and not _was_changed(machine, chosen)
    ]
    ignoring: set[cst.CSTNode] = set()
    for (node, _), visits in by_node.items():
        if node in noted.returned and all(asked.scene.reach.excludes(machines(NO_GPU)) for asked in visits):
            # A computation of its own, on the GPU where there is one.
            continue
        ignored = next((chosen for chosen in noted.chosen if _ignores(node, visits, chosen)), None)
        if ignored is not None:
            asked = next((visit for visit in visits if (visit.scene.reach & ignored.on_cpu).possible), visits[0])
            reach = asked.scene.reach
            wrong = ignored.on_cpu if asked.current is None else ignored.on_cpu & machines(NO_GPU)
            together = reach & wrong
            scene = replace(asked.scene, when=wrong if together.widened and not reach.blurred else together)
            how = source_text(asked.how)
            device = ignored.text if all(ignored.text in visit.names for visit in visits) else ""
            place = asked.written or node
            if place not in ignoring:
                used = Note(node, "used here") if place is not node else None
                note, text = ignored.note, ignored.text
                machine.emit(CudaRequested(place, scene, how, note, text, used, device, asked.fixed))
            ignoring.update((place, node))
    return ignoring


def _executions(requests: Iterable[Request]) -> list[Request]:
    """One request for each execution of a node, whatever the alternatives of its values are."""
    merged: dict[tuple[cst.CSTNode, int], Request] = {}
    for asked in requests:
        known = merged.setdefault((asked.node, asked.scene.visit), asked)
        if known is not asked:
            scene = replace(known.scene, reach=known.scene.reach | asked.scene.reach)
            merged[asked.node, asked.scene.visit] = replace(known, scene=scene)
    return list(merged.values())


def _distinct(choices: Iterable[Chosen]) -> Iterator[Chosen]:
    """Of choices that differ only in the place of their notes the first two: no request is at the place of both."""
    places: dict[tuple[object, ...], set[cst.CSTNode]] = {}
    for chosen in choices:
        facts = (chosen.on_cpu, chosen.surely_not, chosen.text, chosen.option)
        flags = (*facts, chosen.helpful, chosen.of_module, chosen.by_index, chosen.entry)
        kept = places.setdefault(flags, set())
        if len(kept) < 2 and chosen.note.node not in kept:
            kept.add(chosen.note.node)
            yield chosen


def _is_about_else(machine: Machine, chosen: Chosen) -> bool:
    """Whether a GPU is used on purpose where a flag is not set as well.

    ``--multi-gpu`` says how many, not if; where results are kept, if they are taken to the host otherwise.
    """
    flags = any(cube.answers for cube in chosen.surely_not.cubes)
    fetched = () if chosen.of_module else machine.notes[DeviceChoices].fetched
    requests = machine.notes[DeviceChoices].requests
    moved = (asked for asked in requests if asked.current is None and chosen.covers(asked.scene))
    on_gpu = (*(asked.scene.reach for asked in moved), *fetched)
    return flags and any(reach.implies(chosen.surely_not) for reach in on_gpu)


def asks_about_devices(reach: Condition) -> bool:
    """Whether the program tests anything to do with GPUs before it gets here."""
    questions = [answer.question for cube in reach.cubes for answer in cube.answers]
    excludes_machines = all(cube.machines != ANY_MACHINE for cube in reach.cubes)
    return excludes_machines or any(
        question.predicate is ELSEWHERE
        or _name_gpu(words_in(as_expression(question.source)), ("gpu", "cuda", "device"))
        for question in questions
    )


def open_to_others(machine: Machine, scenes: list[Scene], at_home: bool) -> Chosen | None:
    """The choice of a device that may fall elsewhere each time a statement is reached, all ``at_home`` or not.

    One in the same function says more about the statement than others. What a script chooses says nothing of code that
    it does not call. The number of a GPU leaves no way to the CPU.
    """
    functions, called = {scene.function for scene in scenes}, not all(scene.standalone for scene in scenes)
    choices = [
        one
        for one in machine.notes[DeviceChoices].chosen
        if not (one.helpful and at_home)
        and (called or not one.by_script)
        and not one.by_index
        and (not one.entry or all(map(one.covers, scenes)))
    ]
    choices.sort(key=lambda one: one.function not in functions)
    return next((chosen for chosen in choices if _may_fall_elsewhere(scenes, chosen)), None)


def needs_gpu(machine: Machine) -> bool:
    """Whether the program's own file requests CUDA without a test for it."""
    requests = machine.notes[DeviceChoices].requests
    return any(asked.at_home and (asked.scene.reach & machines(NO_GPU)).possible for asked in requests)


def _may_fall_elsewhere(scenes: list[Scene], chosen: Chosen) -> bool:
    # One execution with several values is reached wherever one of them is there. The later rounds of a loop begin where
    # the first one ended: what a test in them says was known before, or what could have been tested raised already.
    first: dict[tuple[cst.CSTNode, ...], int] = {}
    reached: dict[tuple[cst.CSTNode, ...], Condition] = {}
    regardless = False
    for scene in scenes:
        left = _unexplained(scene.reach, chosen)
        regardless = regardless or left.possible
        if first.setdefault(scene.calls, scene.visit) == scene.visit and left.possible:
            reached[scene.calls] = reached.get(scene.calls, NEVER) | left
    if not regardless or any(reach.excludes(chosen.surely_not) for reach in reached.values()):
        return False
    return not any(_asks_about(scene, chosen) for scene in scenes)


def _unexplained(reach: Condition, chosen: Chosen) -> Condition:
    """The ways to a statement on which no test of a tensor's device, and no other flag than the choice's, led there."""
    # That something is on a GPU does not say that it is on the one of this number.
    left = [
        cube for cube in reach.cubes if not (_is_asked_for(cube, chosen) or (_finds_cuda(cube) and not chosen.by_index))
    ]
    return reach if len(left) == len(reach.cubes) else of(left)


def _finds_cuda(cube: Cube) -> bool:
    """Whether a statement is reached only where something, whatever it is, turned out to be on a GPU."""
    return any(answer.given and _sees_cuda(answer.question) for answer in cube.answers)


def finds_tensor_on_gpu(reach: Condition) -> bool:
    """Whether a statement is reached only where the program saw that a tensor is on a GPU, as it moved it there."""
    return all(
        any(answer.given and _asks_where_something_is(answer.question) for answer in cube.answers)
        for cube in reach.cubes
    )


def contradicts(machine: Machine, when: Condition) -> bool:
    """Whether something happens only where the program chose the CPU and then saw a tensor on a GPU."""
    on_gpu = finds_tensor_on_gpu(when) or when.implies(answered(machine.own_on_gpu, True))
    return on_gpu and all(any(_chooses_cpu(answer) for answer in cube.answers) for cube in when.cubes)


def _chooses_cpu(answer: Answer) -> bool:
    return answer.question.chooses_cpu is answer.given


def _is_asked_for(cube: Cube, chosen: Chosen) -> bool:
    """Whether a flag other than the choice's own leads there: the relation between the two is unknown.

    It is also unknown if a GPU was seen and the choice is a flag that nothing is known to set.
    """
    own = {answer.question for cube in chosen.on_cpu.cubes for answer in cube.answers}
    alike = {question.rivals for question in own} - {None}
    unknown = bool(own) and not any(_is_set_by_user(question) for question in own)
    return (unknown and not cube.machines & NO_GPU) or any(
        _is_flag(answer.question)
        and answer.question not in own
        and answer.question.rivals not in alike
        and not is_precondition(cube, answer)
        and not (chosen.by_index and _leaves_index_open(answer, chosen.option))
        for answer in cube.answers
    )


# Tests of a number that do not say which one it is.
_OF_SIZE = frozenset({cst.GreaterThan.__name__, cst.GreaterThanEqual.__name__, cst.LessThan.__name__})


def _leaves_index_open(answer: Answer, option: Symbol | None) -> bool:
    """Whether a test of an option says that it names a GPU, as ``gpu >= 0`` and ``gpu is not None``, and not which."""
    subject = answer.question.subject
    if not isinstance(subject, tuple):
        return subject == option
    return subject[:2] in [(test, option) for test in _OF_SIZE] or (option in subject and not answer.given)


def _is_set_by_user(question: Question) -> bool:
    asked_about = question.subject if isinstance(question.subject, tuple) else (question.subject,)
    options = any(isinstance(one, Symbol) and is_option(one) for one in asked_about)
    return options or looks_into_command_line(question)


def _sees_cuda(question: Question) -> bool:
    """Whether it is ``x.is_cuda``, or compares anything with ``"cuda"``."""
    named = question.subject if isinstance(question.subject, tuple) else ()
    compares = any(isinstance(one, Const) and str(one.value).startswith("cuda") for one in named)
    return compares or _asks_where_something_is(question)


def _ignores(node: cst.CSTNode, visits: list[Request], chosen: Chosen) -> bool:
    """Whether a request is made, each time, also where nothing that guards the choice speaks for CUDA."""
    if not all(chosen.covers(asked.scene) for asked in visits):
        return False
    if chosen.note.node is node or (chosen.option is not None and any(asked.follows for asked in visits)):
        return False
    if chosen.option is not None and _names_process(chosen.option):
        return False
    if not chosen.by_index:
        # That a tensor is on a GPU does not say that it is on the one of this number.
        visits = [asked for asked in visits if not asked.beside]
    if not visits:
        return False
    if chosen.helpful and all(asked.at_home for asked in visits):
        return False
    if any(_decides(asked.current, chosen) for asked in visits):
        return False
    if any(asked.number is not None and _follows_number(asked.number, asked.scene, chosen) for asked in visits):
        return False
    if all(_is_for_several_processes(asked.scene.reach) for asked in visits):
        return False
    return _may_fall_elsewhere([asked.scene for asked in visits], chosen)


def _decides(number: Value | None, chosen: Chosen) -> bool:
    """Whether the choice depends on this number itself, which selects no GPU where it is negative."""
    answers = (answer for cube in chosen.on_cpu.cubes for answer in cube.answers)
    return isinstance(number, Symbol) and (
        number == chosen.option or any(_is_about(answer.question, number) for answer in answers)
    )


def _follows_number(number: Symbol, scene: Scene, chosen: Chosen) -> bool:
    """Whether the choice is one between GPUs, or the program looks at the number first: who gives it wants a GPU."""
    answers = (answer for cube in scene.reach.cubes for answer in cube.answers)
    return chosen.by_index or number == chosen.option or any(_is_about(answer.question, number) for answer in answers)


def _names_process(option: Symbol) -> bool:
    """Whether it is the number of a process: each process has the GPU of that number, which is not a device choice."""
    return last_name(as_expression(option.source)).lower().endswith("rank")


def _is_for_several_processes(reach: Condition) -> bool:
    """Whether a statement is reached only where the program runs as several processes, each with a GPU of its own."""
    return all(any(_says_several_processes(answer) for answer in cube.answers) for cube in reach.cubes)


# How programs name what says whether they run as several processes.
_SEVERAL_PROCESSES = re.compile(r".*(?:distributed|launcher|world_size|local_rank).*|ddp|dist", re.IGNORECASE)


def _says_several_processes(answer: Answer) -> bool:
    test = as_expression(answer.question.source)
    return _is_about_processes(test) and answer.given is not _asks_for_one(test)


@remembered
def _is_about_processes(test: cst.CSTNode) -> bool:
    return any(map(_SEVERAL_PROCESSES.fullmatch, words_in(test)))


def _asks_for_one(test: cst.CSTNode) -> bool:
    comparison = last_comparison(test)
    last = comparison.comparisons[-1] if comparison is not None else None
    return (
        last is not None
        and isinstance(last.operator, (cst.Equal, cst.Is))
        and is_literal(last.comparator, -1, 0, 1, None, "none")
    )


def _asks_about(scene: Scene, chosen: Chosen) -> bool:
    """Whether the program looks at the option of a choice before it gets here."""
    answers = {answer for cube in scene.reach.cubes for answer in cube.answers}
    return chosen.option is not None and any(
        _is_about(answer.question, chosen.option)
        and not (chosen.by_index and _leaves_index_open(answer, chosen.option))
        for answer in answers
    )


def _is_about(question: Question, option: Symbol) -> bool:
    return option in question.subject if isinstance(question.subject, tuple) else option == question.subject

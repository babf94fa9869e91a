"""Attributes: reads, writes, and lookup along the class hierarchy."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from placement_lint.flow.api.torch_names import (
    CONTAINER_METHODS,
    GRAD_FLAGS,
    METHODS_OF_TENSORS,
    MODEL_OUTPUTS,
    MODULE_ATTRIBUTES,
    MODULE_METHODS,
    PARAMETERS_OF_LAYERS,
    PARTS_OF_MODELS,
    VIEWS,
    WRAPPER_FIELDS,
)
from placement_lint.flow.domain.aliasing import within
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import NEVER
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    NAMESPACE,
    NONE,
    REPLICA,
    TRUE,
    Bound,
    Class,
    Const,
    Device,
    External,
    Function,
    Holder,
    Imported,
    Kind,
    Loaded,
    Mapping,
    Object,
    Partial,
    Role,
    Super,
    Symbol,
    Tensor,
    Value,
    alternatives,
    is_compiled,
)
from placement_lint.flow.events.schema import AttributeRebound, BareModuleRead
from placement_lint.flow.interpreter import calls, cuda_guards, grad_flags, library, subscripts
from placement_lint.flow.models import (
    attribute_dicts,
    averaged,
    checkpoints,
    diffusers,
    file_names,
    frameworks,
    gradients,
    hydra,
    loaders,
    lost_parameters,
    modules,
    non_movable,
    optimizers,
    ranks,
    registries,
    schedulers,
    tensors,
    trainable,
    transformers,
    unregistered,
    wrapper_attributes,
    wrappers,
)
from placement_lint.flow.models.gradients import Gradients
from placement_lint.flow.observers import replica_escape, replicas
from placement_lint.flow.state import devices, imports, options
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.classes import SETTER, class_id, find, foreign_bases
from placement_lint.flow.state.devices import Context
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Around, Calls, Replica
from placement_lint.flow.state.names import bind, christen, value_of
from placement_lint.flow.state.notes import Notes, Use, noted
from placement_lint.source.wording import source_text


@dataclass
class Mode(Notes):
    """Whether the modules are in training mode."""

    # a symbol after the first read of ``training``; all modules share one mode
    training: Symbol | None = noted(lambda: None, Use.LASTING)


# --- reading -----------------------------------------------------------------------------------------------


def read(machine: Machine, owner: Value, name: str, node: cst.Attribute) -> Value:
    """``owner.name``"""
    place = owner.place if isinstance(owner, Tensor) and name == "is_cuda" else owner if name == "type" else None
    if isinstance(place, Device) and place.kind in ("cuda", "replica"):
        machine.now[Context].saw_gpu = True
    if name == "dtype":
        # the dtype does not depend on the device
        owner = next((option for _, option in alternatives(owner) if isinstance(option, Tensor)), owner)
    value = machine.lift(lambda option: _read(machine, option, name, node), owner)
    if name == "is_cuda":
        value = cuda_guards.of_flag(owner, value, node)
    ranks.notice_attribute(machine, name, value)
    return value


def _read(machine: Machine, owner: Value, name: str, node: cst.Attribute) -> Value:
    note_other(machine, owner, node)
    if name == "set_epoch":
        loaders.note_set_epoch(machine, owner)
    if name == "__name__" and isinstance(owner, (Class, External)):
        return Const(owner.name.rpartition(".")[2])
    if isinstance(owner, External):
        return imports.library(f"{owner.name}.{name}") if name != "__dict__" else owner
    if isinstance(owner, Imported):
        return _read_of_imported(machine, owner, name)
    if isinstance(owner, Tensor):
        return _read_of_tensor(machine, owner, name, node)
    if isinstance(owner, Object):
        return _read_of_object(machine, owner, name, node)
    if isinstance(owner, Symbol):
        return _read_of_symbol(machine, owner, name, node)
    if isinstance(owner, Class):
        return _read_of_class(machine, owner, name, node)
    if isinstance(owner, Super):
        return Bound(owner, name, node=node)
    if isinstance(owner, Loaded) and name in _OF_A_MODEL:
        checkpoints.used_as_model(machine, owner)
    if isinstance(owner, Device) and (name in non_movable.MOVES or name == "startswith"):
        return Bound(owner, name, node=node)
    if isinstance(owner, Device):
        return _read_of_device(machine, owner, name)
    if isinstance(owner, Partial):
        return owner.function if name == "func" else machine.fresh(name)
    return Bound(owner, name, node=node)


# A loaded value with one of these attributes is a whole model.
_OF_A_MODEL = {"eval", "train", "parameters", "named_parameters", "state_dict", "load_state_dict", "modules", "half"}


def _read_of_imported(machine: Machine, module: Imported, name: str) -> Value:
    if name == "__dict__":
        return module
    value = imports.attribute(machine, module, name)
    if value is None and name in ("items", "values", "keys"):
        return Bound(imports.members(machine, module), name)
    return value if value is not None else imports.library(f"{module.name}.{name}")


def note_other(machine: Machine, owner: Value, node: cst.CSTNode) -> None:
    if not isinstance(owner, Object) or owner.kind is not Kind.WRAPPER:
        machine.notes[Accesses].read_of_others.add(node)


def _read_of_device(machine: Machine, device: Device, name: str) -> Value:
    if name == "type" and device.kind in _TYPES:
        return Const(_TYPES[device.kind])
    known = name == "index" and device.kind in ("cpu", "cuda") and not isinstance(device.index, Symbol)
    return Const(device.index) if known else machine.fresh(name)


# The values of ``device.type``.
_TYPES = {"cpu": "cpu", "replica": "cuda", **{kind: kind for kind in ACCELERATORS}}


def _read_of_tensor(machine: Machine, tensor: Tensor, name: str, node: cst.Attribute) -> Value:
    if tensor.role is Role.BATCH and name in diffusers.OUTPUTS:
        return tensor
    if tensor.role is Role.BATCH and name in MODEL_OUTPUTS:
        return replace(tensor, role=Role.PLAIN, scalar=name == "loss", uid=0)
    if tensor.role is Role.BATCH and name not in _TENSOR_ATTRIBUTES:
        # A batch may be any structure of tensors: its fields are tensors of the same batch, its methods are calls.
        return Bound(tensor, name, node=node)
    return tensors.attribute(machine, tensor, name, node)


_TENSOR_ATTRIBUTES = {"device", "is_cuda", "shape", "dtype", "data", "grad", "T", "ndim", "requires_grad"}


def _read_of_object(machine: Machine, owner: Object, name: str, node: cst.Attribute) -> Value:
    if name == "__class__":
        return owner.cls
    if name == "__dict__":
        wrapper_attributes.any_may_be_written(machine, owner)
    if is_compiled(owner) and name == "_orig_mod":
        return replace(owner, compiled=NEVER)
    if owner.kind is Kind.WRAPPER:
        return _read_of_wrapper(machine, owner, name, node)
    registries.used(machine, owner, name)
    if name in ("weight", "bias"):
        machine.signals.modules.weights_handled(machine, owner.id)
    value = machine.read(owner.id, name)
    if value is not None:
        _note_read(machine, owner, name, node)
        return _as_replicated(machine, owner, name, value, node)
    if isinstance(owner.cls, Class):
        found = find(machine, owner.cls, name)
        if found is not None and not isinstance(found, Function):
            _note_read(machine, owner, name, node)
        if found is not None:
            return bound(machine, owner, found, node)
    if name == calls.SETS_ATTRIBUTE:
        return Bound(owner, name, node=node)
    if owner.kind is Kind.MODULE:
        return _read_of_module(machine, owner, name, node)
    if isinstance(owner.cls, External) and name in library.methods_of(owner.cls):
        return Bound(owner, name, node=node)
    if owner.cls == transformers.ENCODING and (entry := transformers.entry(machine, owner, name)) is not None:
        return entry
    if owner.kind is Kind.DATASET and name == "tensors":
        return loaders.stored(machine, owner) or machine.part(owner.id, name, node, owner)
    if owner.kind is Kind.OPTIMIZER and name == "state":
        optimizers.state_taken(machine, owner)
    if owner.kind is Kind.OPTIMIZER:
        return schedulers.groups(machine, owner, name, node)
    if owner.kind is Kind.DICT and not hasattr({}, name) and attribute_dicts.has_entries_as_attributes(machine, owner):
        return _entry_of_name(machine, owner, name, node)
    if owner.kind is Kind.OTHER or (owner.kind is Kind.INSTANCE and isinstance(owner.cls, Class)):
        if owner.cls == transformers.PREPROCESSOR and name in transformers.PARTS:
            return owner
        if (name in _CONTAINER_METHODS and owner.kind is Kind.OTHER) or name in non_movable.MOVES:
            return Bound(owner, name, node=node)
        return machine.part(owner.id, name, node, owner)
    if attribute_dicts.is_namespace(owner):
        return machine.part(owner.id, name, node, owner)
    if owner.kind in (Kind.LIST, Kind.DICT) and name in _ONLY_OF_TENSORS and not machine.expects("AttributeError"):
        machine.dead = True  # if execution continues, it was not a list
    return Bound(owner, name, node=node)


def _entry_of_name(machine: Machine, owner: Object, name: str, node: cst.Attribute) -> Value:
    """``munch.name``: the entry of that name."""
    mapping = machine.read(owner.id, MAPPING)
    known = dict(within(mapping, owner.alias).items) if isinstance(mapping, Mapping) else {}
    return known[name] if name in known else machine.part(owner.id, name, node, owner)


# Attributes that no layer has.
_OF_NO_LAYER = VIEWS | METHODS_OF_TENSORS
# Attributes that neither a list nor a dict has.
_ONLY_OF_TENSORS = {"shape", "dtype", "device", "ndim", "grad", "requires_grad"}
_CONTAINER_METHODS = {"step", "scale", "update", "unscale_", "backward"}


def _read_of_wrapper(machine: Machine, wrapper: Object, name: str, node: cst.Attribute) -> Value:
    wrapper_attributes.read(machine, wrapper, name)
    if name == "module" or not wrappers.has_attribute(machine, wrapper, name):
        found = wrappers.read_attribute(machine, wrapper, name, node, machine.text(node.value))
        return found if found is not None else machine.fresh(name)
    if isinstance(wrapper.cls, Class) and (own := _read_of_subclass(machine, wrapper, wrapper.cls, name, node)):
        return own
    if name == "training":
        return _mode(machine, node)
    if name == "device":
        # ``next(iter(self._module_parameters)).device`` (DistributedDataParallel.__init__)
        return modules.place_of(machine, wrapper)
    if name in WRAPPER_FIELDS:
        return machine.part(wrapper.id, name, node, wrapper)
    return Bound(wrapper, name, node=node)


def _read_of_subclass(machine: Machine, wrapper: Object, cls: Class, name: str, node: cst.Attribute) -> Value | None:
    """An attribute that a subclass of DataParallel may add to it, or override; unknown where that takes code."""
    own = machine.read(wrapper.id, name) or find(machine, cls, name)
    if own is not None and not isinstance(own, Function):
        return own
    return machine.part(wrapper.id, name, node, wrapper) if own is not None or name not in MODULE_ATTRIBUTES else None


def _mode(machine: Machine, node: cst.Attribute) -> Value:
    mode = machine.notes[Mode]
    mode.training = known = mode.training or machine.fresh(node, "bool")
    return known


def _read_of_module(machine: Machine, module: Object, name: str, node: cst.Attribute) -> Value:
    if name == "module" and _surely_lacks_module(module):
        wrapped = machine.wraps_here(module.id)
        cls = module.cls.name.rpartition(".")[2]
        if wrapped and not machine.now[Around].expecting_attribute_errors:
            machine.emit(BareModuleRead(node, machine.scene, machine.text(node.value), cls, wrapped))
            return machine.fresh(name)
    if name in _OF_NO_LAYER and _is_layer(module) and not machine.expects("AttributeError"):
        machine.dead = True  # if execution continues, it was not a layer: with ``act = nn.ReLU``, ``act(x)`` is one
        return machine.fresh(name)
    if name == "training":
        return TRUE if _is_as_built(machine, module) else _mode(machine, node)
    if name in MODULE_METHODS or name in CONTAINER_METHODS:
        return Bound(module, name, node=node)
    if name in averaged.METHODS and averaged.is_averaged(module):
        return Bound(module, name, node=node)
    if name in transformers.MODEL_METHODS and transformers.is_model(module):
        return Bound(module, name, node=node)
    if isinstance(module.cls, External) and name in PARAMETERS_OF_LAYERS:
        return _weight(machine, module, name)
    if name == "device" and frameworks.knows_its_device(module):
        return modules.place_of(machine, module)
    if diffusers.is_pipeline(module):
        return diffusers.part(machine, module, name, node)
    _note_read(machine, module, name, node)
    part = machine.part(module.id, name, node, module, "torch.dtype" if name == "dtype" else "")
    if isinstance(module.cls, External) and name != "dtype":
        modules.treat_as_module(machine, part, surely=name in PARTS_OF_MODELS)
    return part


def _is_as_built(machine: Machine, module: Object) -> bool:
    """Whether the running code built the module itself, and passed it to no code that may call ``eval()``."""
    return bool(_itself(machine, module)) and module.id not in machine.notes[ModuleNotes].given_away


def _itself(machine: Machine, module: Object) -> int:
    """The id of a module that the running code built itself; 0 for one that represents any instance of its class."""
    beginning = machine.frames[: 1 + machine.now[Calls].standalone][-1]
    return module.id if module.id > beginning.id else 0


def _weight(machine: Machine, module: Object, name: str) -> Value:
    """``layer.weight``: one Parameter, on the layer's device."""
    uid = machine.part(module.id, name, name).id
    place = modules.place_of(machine, module)
    return machine.lift(
        lambda where: (
            Tensor(where, False, Role.PARAMETER, modules=frozenset({module.id}), uid=uid)
            if isinstance(where, (Device, Symbol))
            else machine.fresh(name)
        ),
        place,
    )


def _surely_lacks_module(module: Object) -> bool:
    """Whether a module's class is completely known, so that it certainly lacks the attribute ``module``."""
    return isinstance(module.cls, External) or not any(isinstance(base, Symbol) for base in foreign_bases(module.cls))


def _is_layer(module: Object) -> bool:
    return isinstance(module.cls, External) and module.cls.name.startswith("torch.nn.")


def bound(machine: Machine, owner: Object, found: Value, node: cst.CSTNode) -> Value:
    """The value of a class attribute on an instance: a bound method, a property's value, or ``__get__``'s result."""
    owner = replace(owner, compiled=NEVER) if is_compiled(owner) else owner
    if isinstance(found, Function):
        return _method(machine, owner, found, node)
    getter = find(machine, found.cls, "__get__") if isinstance(found, Object) and isinstance(found.cls, Class) else None
    if isinstance(getter, Function) and isinstance(found, Object):
        return calls.call_function(machine, getter, Arguments((owner, owner.cls)), node, found)
    return found


def _method(machine: Machine, owner: Object, function: Function, node: cst.CSTNode) -> Value:
    if "property" in function.decorators or any(d.endswith("cached_property") for d in function.decorators):
        return calls.call_function(machine, function, Arguments(), node, owner)
    if "staticmethod" in function.decorators:
        return function
    if "classmethod" in function.decorators:
        return Bound(owner.cls, function.name, function, node)
    return Bound(owner, function.name, function, node)


def _read_of_class(machine: Machine, owner: Class, name: str, node: cst.CSTNode) -> Value:
    found = find(machine, owner, name)
    if isinstance(found, Function) and "classmethod" in found.decorators:
        return Bound(owner, name, found, node)
    if found is None and name == "__call__" and owner.module:
        return External("torch.nn.Module.__call__")
    return found if found is not None else machine.part(owner.id, name, f"{owner.name}.{name}")


def chosen(machine: Machine, module: Imported | External, key: Value, written: cst.CSTNode | None = None) -> Value:
    """The attribute of a module of the program, or of a library, under a computed name, or the item of a tuple."""
    if isinstance(module, Imported):
        return imports.chosen(machine, module, key, written)
    if isinstance(key, Const) and type(key.value) is int:
        return imports.item(module.name, key.value) or machine.fresh()
    if isinstance(key, Const) and isinstance(key.value, str):
        return imports.library(f"{module.name}.{key.value}")
    return library.one_of(module.name) or machine.fresh()


def _as_replicated(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode) -> Value:
    """Parameters and buffers of a replica are on its own GPU; other replicas may see an in-place change."""
    if not machine.now[Replica].notes or owner.id not in machine.now[Replica].modules:
        return value

    def there(option: Value) -> Value:
        if not isinstance(option, Tensor):
            return replica_escape.escaping(machine, owner, name, option, node, alone=option is value)
        own = (owner.id, name) in machine.notes[Accesses].written
        replica = replace(option.replica, memory=None if own else Holder(owner, name, node))
        shared = replace(option, replica=replica, alias=owner.alias)
        if option.role in (Role.PARAMETER, Role.BUFFER):
            return replace(shared, place=REPLICA, assumed=False)
        return shared

    return machine.lift(there, value)


def _read_of_symbol(machine: Machine, owner: Symbol, name: str, node: cst.Attribute) -> Value:
    if owner.type == NAMESPACE or machine.read(owner.id, name) is not None:
        # An option may have the name of a method: ``args.cuda``.
        return options.option(machine, owner, name, node)
    if modules.is_module(machine, owner):
        if name == "module" and machine.wraps_here(owner.id) and not machine.now[Around].expecting_attribute_errors:
            # The program wraps this value elsewhere: the bare module has no attribute ``module``.
            wrapped = machine.wraps_here(owner.id)
            machine.emit(BareModuleRead(node, machine.scene, machine.text(node.value), "the bare module", wrapped))
            return machine.fresh(name)
        if name in MODULE_METHODS:
            return Bound(owner, name, node=node)
    hydra.used(machine, owner, name)
    if name in _MODULE_EVIDENCE:
        modules.treat_as_module(machine, owner)
        return Bound(owner, name, node=node)
    if name in _METHODS_OF_UNKNOWN or file_names.gives_stamp(owner, name):
        return Bound(owner, name, node=node)
    if name == "is_cuda" and machine.looks_at_forward:
        return machine.ask(machine.own_on_gpu)
    if name == "type":
        devices.used_as_device(machine, owner)
    part = machine.part(owner.id, name, node, owner, "torch.dtype" if name == "dtype" else "")
    if modules.is_module(machine, owner) and not hydra.is_object(owner):
        modules.treat_as_module(machine, part)
    return part


# Attributes that only modules have.
_MODULE_EVIDENCE = {
    "named_parameters", "named_modules", "named_children", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook",
}  # fmt: skip
_METHODS_OF_UNKNOWN = {
    "to", "cuda", "cpu", "parameters", "state_dict", "load_state_dict", "train", "eval", "step", "backward",
    "items", "keys", "values", "append", "get", "pop", "numpy", "item", "format", "split", "copy",
}  # fmt: skip


# --- reads of module attributes ------------------------------------------------------------------------------


def _note_read(machine: Machine, owner: Object, name: str, node: cst.CSTNode) -> None:
    """Record the read of a module attribute that the same forward did not write."""
    if owner.kind is not Kind.MODULE or machine.constructing(owner) or machine.now[Around].testing:
        return
    if machine.now[Calls].in_forward and (owner.id, name) in machine.notes[Accesses].written:
        return
    readers = machine.notes[Accesses].reads.setdefault((class_id(owner), name), {})
    readers.setdefault((node, _itself(machine, owner)), machine.now[Around].updating)


# --- writing -----------------------------------------------------------------------------------------------


def write(machine: Machine, owner: Value, name: str, value: Value, node: cst.CSTNode, text: str | cst.CSTNode) -> None:
    """``owner.name = value``; ``node`` is the statement."""
    machine.lift(lambda option: _write(machine, option, name, value, node, text), owner)


def _write(
    machine: Machine, owner: Value, name: str, value: Value, node: cst.CSTNode, text: str | cst.CSTNode
) -> Value:
    note_other(machine, owner, node)
    checkpoints.used(machine, value)
    if isinstance(owner, Object) and _set_property(machine, owner, name, value, node):
        return NONE
    if name == "grad":
        machine.notes[Gradients].by_hand = True
    if name == "requires_grad" and isinstance(owner, Tensor) and owner.role is Role.PARAMETER:
        trainable.flagged(machine, owner.modules or frozenset({owner.uid}), value, node)
    if name == "data" and isinstance(owner, Tensor):
        machine.signals.tensors.data_assigned(machine, owner)
        _fill(machine, owner, value, node, text)
    if name == "requires_grad" and isinstance(owner, Tensor):
        gradients.ask(machine, owner, value)
    if name in GRAD_FLAGS:
        grad_flags.check(machine, owner, name, node, text)
    if isinstance(owner, Object):
        if not machine.constructing(owner):
            machine.signals.modules.weights_handled(machine, owner.id)
        machine.signals.program.value_kept(machine, value)
    if isinstance(owner, Object):
        if owner.kind in (Kind.MODULE, Kind.WRAPPER):
            _write_of_module(machine, owner, name, value, node, text)
        elif owner.kind is Kind.DATASET and name == "tensors":
            loaders.refill(machine, owner, value)
        elif attribute_dicts.has_entries_as_attributes(machine, owner):
            subscripts.write(machine, owner, Const(name), value, node, text)
            return NONE
        else:
            before = machine.read(owner.id, name)
            if before is not None:
                optimizers.replaced(machine, owner, name, before, value, node)
            if owner.kind is Kind.OPTIMIZER and name == schedulers.GROUPS:
                optimizers.regrouped(machine, owner, value)
            machine.write(owner.id, name, value)
            christen(machine, value, text)
            schedulers.succeeded(machine, text, before, value, node)
    elif isinstance(owner, Symbol):
        if modules.is_module(machine, owner):
            optimizers.replaced(machine, owner, name, machine.read(owner.id, name), value, node)
        machine.write(owner.id, name, value)
        christen(machine, value, text)
    elif isinstance(owner, Class):
        machine.write(owner.id, name, value)
    elif isinstance(owner, Imported):
        imports.assign(machine, owner, name, value)
    elif isinstance(owner, External):
        machine.write(machine.module_frame, _WRITTEN.of(f"{owner.name}.{name}"), TRUE)
    return NONE


# Cells of the module frame: names of libraries that the program assigns to.
_WRITTEN = Slot("written")


def is_written(machine: Machine, name: External) -> bool:
    """Whether the program assigned to a name of a library before."""
    return machine.read(machine.module_frame, _WRITTEN.of(name.name)) is not None


def _set_property(machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode) -> bool:
    """Whether a property's setter took the value. `Module.__setattr__` stores modules and Parameters without it."""
    setter = find(machine, owner.cls, SETTER.of(name)) if isinstance(owner.cls, Class) else None
    if not isinstance(setter, Function):
        return False
    if owner.kind is Kind.MODULE and any(_is_registered(machine, option) for _, option in alternatives(value)):
        return False
    return calls.attempt(machine, setter, Arguments((owner, value)), node, owner) is not None


def _is_registered(machine: Machine, value: Value) -> bool:
    return modules.is_module(machine, value) or (isinstance(value, Tensor) and value.role is Role.PARAMETER)


def _write_of_module(
    machine: Machine, owner: Object, name: str, value: Value, node: cst.CSTNode, text: str | cst.CSTNode
) -> None:
    noted = machine.notes[Accesses]
    before = machine.read(owner.id, name)
    if owner.kind is Kind.WRAPPER:
        wrapper_attributes.written(machine, owner, name, value, node, text)
    else:
        wrapper_attributes.written_inside(machine, owner, name)
    modules.tended(machine, owner, name)
    if machine.now[Calls].in_forward:
        if (
            machine.now[Replica].notes
            and owner.id in machine.now[Replica].modules
            # a hook sets the attribute before each forward, only for that forward
            and owner not in machine.now[Calls].prepared
            and not replicas.keeps(machine, owner, name, value)
        ):
            buffer = isinstance(before, Tensor) and before.role is Role.BUFFER
            rebound = AttributeRebound(node, machine.scene, source_text(text), name, (), buffer)
            built = replicas.rebuilt(machine, name, value, node)
            noted.rebinds.append((rebound, class_id(owner), _itself(machine, owner), built))
        noted.written.add((owner.id, name))
        noted.changed.add((class_id(owner), name))
    machine.signals.modules.child_registered(machine, value)
    machine.signals.program.attribute_bound(machine, owner, name, value, node)
    lost_parameters.report(machine, owner, name, before, value, node)
    value = machine.lift(lambda option: lost_parameters.kept(machine, owner, name, option), value)
    optimizers.replaced(machine, owner, name, before, value, node)
    unregistered.note_container(machine, owner, name, value, node)
    modules.given_weight(machine, owner, value, node)
    if isinstance(owner.cls, Class) and find(machine, owner.cls, "__setattr__") is not None:
        # A custom __setattr__ may register the value, move it, or do neither.
        value = machine.lift(lambda option: machine.fresh() if isinstance(option, Tensor) else option, value)
    registrable = before is None and _could_register(machine, owner, name, value)
    stored = machine.lift(lambda option: modules.stored(machine, owner, name, option, node, registrable), value)
    machine.write(owner.id, name, stored)
    if machine.now[Calls].in_forward:
        machine.signals.program.attribute_left(machine, owner, name, stored, node)
    christen(machine, value, text)
    schedulers.succeeded(machine, text, before, value, node)


def _could_register(machine: Machine, owner: Object, name: str, value: Value) -> bool:
    """Whether ``register_buffer`` could replace the first assignment to an attribute."""
    inherited = find(machine, owner.cls, name) if isinstance(owner.cls, Class) else None
    ready = machine.constructing(owner) and machine.read(owner.id, modules.INITIALISED) is not None
    return ready and inherited is None and all(isinstance(option, Tensor) for _, option in alternatives(value))


def _fill(machine: Machine, tensor: Tensor, data: Value, node: cst.CSTNode, text: str | cst.CSTNode) -> None:
    """``tensor.data = data``: the same tensor, now on the device of the data."""
    if tensor.modules:
        machine.lift(lambda option: modules.filled(machine, tensor, option, node), data)
        return
    moved = machine.lift(lambda option: modules.with_data(machine, tensor, option, node), data)
    held = text.value if isinstance(text, cst.Attribute) else None
    if isinstance(held, cst.Name) and value_of(machine, held) == tensor:
        bind(machine, held.value, moved)
    owner = value_of(machine, held.value) if isinstance(held, cst.Attribute) else None
    if isinstance(held, cst.Attribute) and isinstance(owner, Object) and value_of(machine, held) == tensor:
        machine.write(owner.id, held.attr.value, moved)

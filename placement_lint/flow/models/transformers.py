"""Tokenizers and processors of Hugging Face transformers, what they return, and models that get other weights.

Read in transformers 5.24: `tokenization_utils_base.py` (`BatchEncoding`), `feature_extraction_utils.py`
(`BatchFeature`) and `modeling_utils.py` (`resize_token_embeddings`).
"""

from __future__ import annotations

import re
from functools import lru_cache

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Device,
    External,
    Kind,
    Mapping,
    Object,
    Source,
    Symbol,
    Tensor,
    Value,
    describe,
)
from placement_lint.flow.models import factories, optimizers, tensors
from placement_lint.flow.state.devices import as_place, default_place
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine

_TEXT = ("input_ids", "attention_mask")

# What turns texts, pictures or sounds into tensors: its class, and the entries that what it returns surely has.
_PREPROCESSORS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"transformers\.(?:\w+\.)*(?:\w*Tokenizer(?:Fast|Base)?)\.from_pretrained"), _TEXT),
    (re.compile(r"transformers\.(?:\w+\.)*\w*ImageProcessor(?:Fast)?(?:\.from_pretrained)?"), ("pixel_values",)),
    (re.compile(r"transformers\.(?:\w+\.)*\w*(?:Processor|FeatureExtractor)\.from_pretrained"), ()),
)
# The entries that processors return for an argument.
_ENTRIES = {"text": _TEXT, "images": ("pixel_values",)}

PREPROCESSOR = External("transformers.ProcessorMixin")
ENCODING = External("transformers.BatchEncoding")

# Methods of preprocessors that return one tensor, and those that return an encoding.
_TO_TENSOR = {"encode"}
_TO_ENCODING = {"__call__", "encode_plus", "batch_encode_plus", "pad", "preprocess", "prepare_for_model"}
_BY_OPTION = {"apply_chat_template"}
METHODS = _TO_TENSOR | _TO_ENCODING | _BY_OPTION
# The preprocessors in a preprocessor.
PARTS = {"tokenizer", "image_processor", "feature_extractor"}

_PYTORCH = (Const("pt"), External("transformers.TensorType.PYTORCH"), External("transformers.utils.TensorType.PYTORCH"))


@lru_cache(maxsize=8192)
def _entries_of(name: str) -> tuple[str, ...] | None:
    return next((entries for pattern, entries in _PREPROCESSORS if pattern.fullmatch(name)), None)


def makes_preprocessor(name: str) -> bool:
    """Whether a library's name is what builds a tokenizer or processor."""
    return _entries_of(name) is not None


def preprocessor(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``AutoTokenizer.from_pretrained(name)``"""
    made = machine.new_object(Kind.OTHER, PREPROCESSOR, node)
    machine.write(made.id, MAPPING, Mapping(tuple((entry, NONE) for entry in _entries_of(name) or ())))
    return made


def preprocess(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``tokenizer(texts, return_tensors="pt")``: tensors on the default device or that of ``device=``."""
    if arguments.keyword("return_tensors") not in _PYTORCH:
        return machine.fresh(node)
    given = arguments.keyword("device")
    place = default_place(machine) if given is None or given == NONE else given
    if name in _TO_TENSOR or (name in _BY_OPTION and arguments.keyword("return_dict") == FALSE):
        return machine.lift(lambda where: _made(machine, where, node), place)
    encoding = machine.new_object(Kind.DICT, ENCODING, node)
    surely = name not in _BY_OPTION or arguments.keyword("return_dict") == TRUE
    entries = dict.fromkeys(_sure_entries(machine, target, arguments) if surely else ())

    def made() -> Value:
        return machine.lift(lambda where: _made(machine, where, node), place)

    machine.write(encoding.id, MAPPING, Mapping(tuple((entry, made()) for entry in entries), made()))
    return encoding


def _sure_entries(machine: Machine, target: Object, arguments: Arguments) -> list[str]:
    own = machine.read(target.id, MAPPING)
    entries = [str(entry) for entry, _ in own.items] if isinstance(own, Mapping) else []
    for argument, added in _ENTRIES.items():
        entries += added if arguments.keyword(argument) not in (None, NONE) else ()
    return entries


def _made(machine: Machine, where: Value, node: cst.Call) -> Value:
    place = as_place(where)
    if not isinstance(place, (Device, Symbol)):
        return machine.fresh(node)
    return factories.new(machine, place, False, Source.FACTORY, node, f"tensors on {describe(place)} made here")


def move(machine: Machine, encoding: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``encoding.to(device)`` moves the tensors in it, in place, and returns it."""
    target = tensors.move_target(machine, name, arguments, node)
    mapping = machine.read(encoding.id, MAPPING)
    if isinstance(mapping, Mapping):
        items = tuple((key, _moved(machine, value, target, node)) for key, value in mapping.items)
        rest = _moved(machine, mapping.rest, target, node) if mapping.rest is not None else None
        machine.write(encoding.id, MAPPING, replace(mapping, items=items, rest=rest))
    return encoding


def _moved(machine: Machine, value: Value, target: Value, node: cst.Call) -> Value:
    def one(option: Value, place: Value) -> Value:
        return tensors.move(machine, option, place, node, ".to(…)") if isinstance(option, Tensor) else option

    return machine.lift(one, value, target)


def entry(machine: Machine, encoding: Object, name: str) -> Value | None:
    """``encoding.input_ids``"""
    mapping = machine.read(encoding.id, MAPPING)
    return mapping.get(name) if isinstance(mapping, Mapping) else None


# --- models ----------------------------------------------------------------------------------------------------

MODEL_METHODS = {"resize_token_embeddings"}
_WITH_OUTPUT_LAYER = re.compile(
    r"transformers\.\w+(?:ForCausalLM|LMHeadModel|ForMaskedLM|ForSeq2SeqLM|ForConditionalGeneration|ForPreTraining)\.\w+"
)


def is_model(module: Object) -> bool:
    """Whether a module is one of the library's own models."""
    return isinstance(module.cls, External) and module.cls.name.startswith("transformers.")


def resized(machine: Machine, module: Object | Symbol, arguments: Arguments, node: cst.Call) -> Value:
    """``model.resize_token_embeddings(n)`` makes a new output layer; the embeddings keep their Parameter since 4.44."""
    if isinstance(module, Object) and _WITH_OUTPUT_LAYER.fullmatch(module.cls.name) and arguments.values():
        optimizers.renewed(machine, module, "resized", node)
    return machine.part(module.id, "embeddings", node, module)

"""Diffusers: pipelines with their parts, and the schedulers that add noise.

Read in diffusers 0.42.1: `pipelines/pipeline_utils.py` (`DiffusionPipeline.to` moves all modules in place and returns
the pipeline; `enable_model_cpu_offload` moves them as they are needed), `models/modeling_utils.py` (`ModelMixin`) and
`schedulers/scheduling_ddpm.py` (`add_noise` moves its timesteps, and needs the noise where the samples are).
https://github.com/huggingface/diffusers/blob/v0.35.1/src/diffusers/pipelines/pipeline_utils.py
"""

from __future__ import annotations

import re
from functools import lru_cache

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import External, Kind, Object, Value
from placement_lint.flow.models import modules, operations
from placement_lint.flow.models.operands import Positioned, with_operands
from placement_lint.flow.state.machine import Machine

# --- pipelines -----------------------------------------------------------------------------------------------

PIPELINE = External("diffusers.DiffusionPipeline")
_PIPELINES = re.compile(
    r"diffusers\.(?:\w+\.)*(?:\w*Pipeline|AutoPipelineFor\w+)\.(?:from_pretrained|from_pipe|from_single_file)"
)
# The parts that are modules; others are tokenizers, schedulers and options.
_PARTS = re.compile(
    r"unet(?:_2)?|vae|vqvae|vqgan|transformer(?:_2)?|text_encoder(?:_[23])?|controlnet|image_encoder|safety_checker"
    r"|prior|decoder|motion_adapter"
)
# These move the parts of a pipeline between its calls, or to where the memory is.
_OFFLOADS = re.compile(r"enable_\w*offload\w*|reset_device_map|remove_all_hooks|maybe_free_model_hooks")


@lru_cache(maxsize=8192)
def makes_pipeline(name: str) -> bool:
    """Whether a library's name is what loads a pipeline."""
    return _PIPELINES.fullmatch(name) is not None


def pipeline(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``StableDiffusionPipeline.from_pretrained(name, unet=unet)``: on the CPU, but for the parts that it is given."""
    made = modules.new_module(machine, PIPELINE, node)
    if name.endswith(".from_pipe") or arguments.spread or arguments.keyword("device_map") is not None:
        machine.write(made.id, modules.PLACE, machine.fresh())
    for part, value in arguments.keywords.items():
        if _PARTS.fullmatch(part) and modules.is_module(machine, value):
            machine.write(made.id, part, value)
    return made


def is_pipeline(value: Value) -> bool:
    return isinstance(value, Object) and value.cls == PIPELINE


def part(machine: Machine, pipe: Object, name: str, node: cst.Attribute) -> Value:
    """``pipe.unet``: a module, where the pipeline is; or something else than a module."""
    if _OFFLOADS.fullmatch(name):
        modules.forget_places(machine, pipe)
    if not _PARTS.fullmatch(name):
        return machine.part(pipe.id, name, node)
    found = machine.part(pipe.id, name, node, pipe)
    modules.treat_as_module(machine, found, surely=True)
    return found


# Fields of the outputs of models. ``sample`` is a method of their distributions, too: what is called is the tensor.
OUTPUTS = {"sample", "latent_dist"}


# --- schedulers ----------------------------------------------------------------------------------------------

SCHEDULER = External("diffusers.SchedulerMixin")
_SCHEDULERS = re.compile(r"diffusers\.(?:\w+\.)*\w+Scheduler(?:\.(?:from_pretrained|from_config))?")
METHODS = {"add_noise", "get_velocity", "step"}


@lru_cache(maxsize=8192)
def makes_scheduler(name: str) -> bool:
    """Whether a library's name is what builds a scheduler of noise."""
    return _SCHEDULERS.fullmatch(name) is not None


def scheduler(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``DDPMScheduler(num_train_timesteps=1000)``"""
    return machine.new_object(Kind.OTHER, SCHEDULER, node)


def call_scheduler(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``scheduler.add_noise(samples, noise, timesteps)``, wherever the timesteps are."""
    if name == "step":
        return machine.fresh(node)

    def add(operands: Positioned) -> Value:
        taken = [operand for position, operand in operands if position < 2]
        return operations.operate(machine, node.func, taken, node) or machine.fresh(node)

    samples = Arguments(arguments.positional[:2])
    return with_operands(machine, samples, node, add) if len(samples.positional) == 2 else machine.fresh(node)

"""The fixtures on which a rule keeps silent: an experiment with the facts of such a program is refuted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placement_lint.finding import Outcome

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"

REPAIRED = "it is what the control arm runs"

LOOK_ALIKES: dict[str, dict[str, dict[str, Any] | str]] = {
    "alias-escapes-replica": {
        "functions": {"how": "static"},
        "names": {"how": "static"},
        "never_wrapped": {"wrapper": ""},
        "outside_forward": {"wrapper": ""},
        "registered": {"how": "ModuleList"},
    },
    "batch-dim-mismatch": {
        "batch_first": {"batch_first": True},
        "dim_one": {"dim": 1},
        "packed": {"batch_first": True},
        "single_id": {"device_ids": [0]},
        "state_inside": {"batch_first": True, "what": "transposed"},
        "transposed": {"what": "inside"},
    },
    "cuda-in-worker": {
        "context": "its workers are not forked",
        "gpu_generator": REPAIRED,
        "moved_in_loop": REPAIRED,
        "no_workers": {"num_workers": 0},
        "spawn": "its workers are not forked",
        "worker_option": REPAIRED,
    },
    "ddp-device-arguments": {
        "conditional_ids": {"place": "cpu", "device_ids": None},
        "cpu_gloo": {"place": "cpu", "device_ids": []},
        "local_rank": {"place": "cuda:1", "device_ids": [1], "output_device": 1},
        "model_parallel": "its module is on two GPUs, and no ids are given",
        "moved_to_rank": {"place": "cuda:1", "device_ids": [1]},
        "two_options": {"place": "cuda:0", "device_ids": [0]},
        "nccl_only": {"place": "cuda:1", "device_ids": [1]},
    },
    "data-parallel-in-process-group": {
        "either_or": REPAIRED,
        "first_rank_only": {"world_size": 1},
        "one_process": {"world_size": 1},
        "own_device": "it averages the gradients by hand",
        "when_alone": {"world_size": 1},
    },
    "ddp-forward-bypasses-wrapper": {
        "adversary": "the gradients that are not averaged are thrown away",
        "both_ways": {"called": "both"},
        "evaluation": "there are no gradients",
        "helpers_on_outputs": {"called": "a helper"},
        "not_in_ddp": {"called": "the wrapper"},
    },
    "ddp-module-changed-after-wrap": {
        "before": REPAIRED,
        "no_ops": {"how": "moved to where it is"},
        "only_evaluated": "nothing trains afterwards",
        "unused_allowed": {"how": "frozen", "find_unused_parameters": True},
        "wrapped_again": REPAIRED,
    },
    "buffer-updated-from-first-chunk": {
        "batch_norm": "torch's own layers do so by design",
        "independent": {"from_batch": False},
        "initialised_once": "it is an initialisation, by a chunk as well as by a batch",
        "single_device": {"device_ids": [0]},
        "updated_outside": REPAIRED,
    },
    "device-choice-ignored": {
        "default_cuda": {"choice": "cuda"},
        "early_exit": {"choice": "cuda"},
        "guarded": {"choice": "cuda"},
        "lightning_on_gpu": {"choice": "cuda"},
        "no_choice": {"choice": "cuda"},
        "seed_and_amp": {"asked": "cpu"},
        "tried": "the exception is dealt with",
        "where_the_input_is": {"choice": "cuda"},
    },
    "distributed-sampler-misuse": {
        "accelerate": REPAIRED,
        "conditional": REPAIRED,
        "no_shuffle": {"shuffle": False},
        "set_epoch": REPAIRED,
    },
    "factory-without-device": {
        "default_device": {"default_device": "cuda"},
        "device_context": {"default_device": "cuda"},
        "device_given": {"device": "that of the input"},
        "index_only": {"operation": "indexing with it"},
        "like_and_new": {"device": "that of the input"},
        "shape_and_python": {"scalar": True},
    },
    "global-rank-as-ordinal": {
        "local_rank": {"ordinal": "local rank"},
        "modulo": {"ordinal": "rank % count"},
        "one_rank": "nothing says that there is another node",
        "single_node": {"ordinal": "local rank"},
    },
    "hardcoded-device-in-replica": {
        "current_device": {"stray": "cuda"},
        "follow_input": REPAIRED,
        "not_wrapped": {"wrapper": ""},
        "outside_forward": {"wrapper": ""},
        "single_id": {"device_ids": [0]},
    },
    "invalid-device-ids": {
        "all_devices": REPAIRED,
        "ddp": "its wrapper is another",
        "device_objects": {"device_ids": ["cuda:0", "cuda:1"], "output_device": "cuda:0"},
        "empty_without_gpu": {"device_ids": [0]},
        "enough_visible": {"device_ids": [0, 1], "visible": "0,1"},
        "from_options": {"device_ids": [0, 1]},
        "minus_one": {"device_ids": [0, 1], "output_device": -1},
    },
    "load-without-map-location": {
        "data_file": {"saved_on": "cpu"},
        "gpu_only": "it never runs without the GPU that it was saved from",
        "guarded": REPAIRED,
        "mapped": {"map_location": "cpu"},
        "safetensors": "its loader is another",
        "same_run": {"saved_on": "cpu"},
    },
    "missing-set-device": {
        "accelerate": {"set_device": True},
        "cpu_group": "it uses no GPU",
        "device_id": {"set_device": True},
        "either_device": "it is made for one process with a GPU, or several without",
        "indexed": {"device": "cuda:{rank}"},
        "one_process": "it has no second rank",
        "set_device": {"set_device": True},
        "visible_devices": "each of its processes sees another GPU as the first",
    },
    "module-attribute-on-unwrapped": {
        "getattr": REPAIRED,
        "implied": {"wrapper": "DataParallel"},
        "list_of_gpus": {"wrapper": "DataParallel"},
        "own_module_attribute": {"own_attribute": True},
        "same_condition": {"wrapper": "DataParallel"},
        "unconditional": {"wrapper": "DataParallel"},
        "unwrap_loop": REPAIRED,
    },
    "module-created-in-forward": {
        "called_once_before": {"kept": "once", "called_before": True},
        "factory_from_init": REPAIRED,
        "fixed_filter": "its weights are given",
        "lazy_layers": "the Parameters are there from the beginning",
        "modules_in_functions": REPAIRED,
        "without_parameters": {"made": "Softmax"},
    },
    "module-not-on-first-device": {
        "helpers_move": {"place": "cuda:0"},
        "matching_ids": {"place": "cuda:1", "device_ids": [1, 0]},
        "move_after": {"place": "cuda:0"},
        "nothing_to_move": {"parameters": False},
        "single_id": {"device_ids": [0]},
        "use_cuda": {"place": "cuda:0"},
    },
    "move-on-non-movable": {
        "asked_first": REPAIRED,
        "asks_first": REPAIRED,
        "batch_encoding": "the object has a `to` of its own",
        "fabric": "nothing calls `to`",
        "members": {"kind": "module"},
        "own_to": "the object has a `to` of its own",
        "packed": {"kind": "PackedSequence"},
        "unknown_collate": "the object may have a `to` of its own",
    },
    "move-result-discarded": {
        "assigned": REPAIRED,
        "batch_object": {"receiver": "module"},
        "modules": {"receiver": "module"},
        "unknown_receiver": {"receiver": "module"},
        "walrus_and_nested": REPAIRED,
    },
    "non-batch-argument": {
        "buffer": "the tensor is no argument",
        "expanded": {"rows": 8},
        "same_rows": {"rows": 8},
        "python_numbers": "it is no tensor",
        "single_id": {"device_ids": [0]},
        "unknown_sizes": {"rows": 8},
    },
    "non-tensor-output": {
        "never_wrapped": {"wrapper": ""},
        "none": {"type": "None"},
        "reduced_outside": REPAIRED,
        "single_id": {"device_ids": [0]},
        "tensors": {"type": "dict"},
    },
    "moved-leaf-or-device-comparison": {
        "leaf_kept": "it reads the gradient of the leaf",
        "made_there": {"target": "cpu"},
        "own_device": "its device is a text",
        "retained": {"retained": True},
        "type_of_device": {"fault": "comparison", "index": True},
    },
    "nonblocking-read": {
        "blocking": "its copies wait by themselves",
        "host_to_gpu": "it copies to the GPU",
        "never_read": "nothing reads the copy",
        "waits": {"waits": True},
    },
    "numpy-on-cuda": {
        "cpu_first": {"place": "cpu"},
        "dataset_side": {"place": "cpu"},
        "helper_checks": REPAIRED,
        "host_model": {"place": "cpu"},
        "option": {"place": "cpu"},
        "python_values": {"reader": "tolist()"},
    },
    "operand-not-moved": {
        "moved_in_place": {"stray": "cuda"},
        "option_device": {"stray": "cuda"},
        "tensor_of_tensor": {"stray": "cuda"},
        "copy_and_slices": {"operation": "copy_"},
        "criterion_moved": {"operation": "the weight of a loss", "stray": "cuda"},
        "ctc_targets": "ctc_loss moves its targets itself",
        "data_parallel_inputs": {"operation": "call", "through": "DataParallel"},
        "host_scalars_and_indices": {"operation": "+", "scalar": True},
        "output_device": {"stray": "cuda"},
        "prefetcher": {"stray": "cuda"},
        "same_flag": {"stray": "cuda"},
        "noise_like_its_scale": {"stray": "cuda:0"},
    },
    "optimizer-before-materialize": {
        "built_afterwards": REPAIRED,
        "real_tensors": {"home": "cpu"},
        "rebuilt": REPAIRED,
        "shapes_only": "the optimizer takes no step",
        "swapped": {"swapping": True},
    },
    "optimizer-before-model-surgery": {
        "compiled_and_synced": {"how": "prepare_qat in place"},
        "float_model_goes_on": "the copy is not trained",
        "group_added": {"added": True},
        "norm_first": REPAIRED,
        "remove_for_export": "the optimizer takes no step afterwards",
        "spectral_norm": {"how": "spectral_norm"},
    },
    "optimizer-before-sharding": {
        "ddp": {"how": "DistributedDataParallel"},
        "original_parameters": {"how": "FullyShardedDataParallel", "use_orig_params": True},
        "rebuilt": REPAIRED,
        "sharded_first": REPAIRED,
        "teacher_sharded": "the optimizer holds other parameters",
    },
    "optimizer-misses-parameters": {
        "all_given": {"all_given": True},
        "criterion_given": {"how": "a criterion", "added": True},
        "gan": {"added": True},
        "group_added": {"added": True},
        "head_only": {"unfrozen": False},
        "perceptual": "it was trained elsewhere",
        "thawed_with_a_group": {"added": True},
        "two_stages": REPAIRED,
        "rebuilt": {"added": True},
    },
    "optimizer-non-leaf-or-empty": {
        "asked_again": {"how": "clipped", "listed": True},
        "data_and_clone": {"how": ".detach()"},
        "first_of_generator": "the generator is not used up",
        "leaf_on_device": {"asked": "afterwards"},
        "lists": {"how": "empty", "listed": True},
    },
    "optimizer-stale-after-replacement": {
        "add_param_group": {"added": True},
        "best_snapshot": {"how": "copied aside"},
        "ema_teacher": {"how": "copied aside"},
        "folds_rebuilt": REPAIRED,
        "in_place_init": {"how": "filled"},
        "replace_then_build": REPAIRED,
        "rollback": {"how": "filled"},
        "tied_and_stripped": {"how": "tied"},
    },
    "optimizer-state-before-move": {
        "adagrad_after_move": REPAIRED,
        "adam_before_move": {"optimizer": "Adam"},
        "cpu_at_end": {"state": "stepped", "source": "cuda", "target": "cpu", "stepped_after": False},
        "load_after_move": {"optimizer": "Adam", "state": "stepped", "loaded_after": True},
        "option_round_trip": {"state": "stepped", "target": "cpu"},
        "other_module_moved": {"target": "cpu"},
        "plain_sgd_stepped": {"optimizer": "SGD", "momentum": 0.0, "state": "stepped"},
        "round_trip": {"state": "stepped", "target": "cpu"},
        "state_moved_too": "the program moves the state itself",
        "state_reloaded": {"optimizer": "Adam", "state": "stepped", "loaded_after": True},
    },
    "parameter-lost-by-conversion": {
        "buffer_from_parameter": "it is a buffer, and meant to be one",
        "computed_from_registered": "the Parameter is registered under another name",
        "converted_in_forward": "it is stored nowhere",
        "joined_inside": REPAIRED,
        "local_only": "it is stored nowhere",
        "moved_inside": REPAIRED,
        "requires_grad_off": {"conversion": ".requires_grad_()"},
    },
    "parameters-in-replica": {
        "buffers_modules": {"method": "buffers"},
        "named_weight": REPAIRED,
        "never_wrapped": {"wrapper": ""},
        "outside_forward": {"wrapper": ""},
        "parameter_list": {"method": "ParameterList"},
    },
    "requires-grad-without-effect": {
        "parameters_and_modules": {"module": False},
        "method": REPAIRED,
        "other_objects": "its objects are neither modules nor tensors",
        "own_attribute": "the module reads the attribute itself",
        "parameters": {"module": False},
    },
    "shared-state-in-replica": {
        "collected_outside": REPAIRED,
        "keyed_by_device": {"how": "[]=", "keyed": True},
        "never_wrapped": {"device_ids": [0]},
        "numbers": "numbers of the replicas may well be collected",
        "own_list": "the list is one of the replica",
        "returned": REPAIRED,
    },
    "state-rebound-in-replica": {
        "buffer_in_place": {"buffer": True, "in_place": True},
        "never_wrapped": {"wrapper": ""},
        "scratch": "nothing reads the attribute afterwards",
        "set_outside": {"wrapper": ""},
        "single_id": {"device_ids": [0]},
    },
    "summed-replica-loss": {
        "divided": {"divided": True},
        "loss_outside": {"reduction": "none", "how": "mean"},
        "mean_even": {"how": "mean"},
        "per_sample": {"reduction": "none", "how": "mean"},
        "sum_per_replica": {"reduction": "sum"},
    },
    "unreduced-replica-loss": {
        "asked_for_its_shape": REPAIRED,
        "gradient_argument": {"use": "backward(gradient)"},
        "loss_outside": {"reduced": True},
        "mean": REPAIRED,
        "module_called": {"wrapper": ""},
        "never_wrapped": {"wrapper": ""},
        "per_sample": {"reduced": True},
    },
    "unregistered-container": {
        "aliases": {"registered_too": True},
        "functions": "it holds neither modules nor Parameters",
        "module_list": {"container": "ModuleList"},
        "names": "it holds neither modules nor Parameters",
        "nets_in_trainer": "its owner is no module",
        "sequential_from_list": {"container": "ModuleList"},
        "teacher": "what it holds is moved or frozen by others",
    },
    "unregistered-tensor-attribute": {
        "apply_overridden": "the module takes the tensor along itself",
        "index_only": {"operation": "indexing with it"},
        "moved_at_use": {"stray": "cuda"},
        "registered": {"role": "buffer"},
        "same_device": {"stray": "cuda"},
        "zero_dim": {"scalar": True},
    },
    "visible-devices-misuse": {
        "after_import": REPAIRED,
        "before_import": REPAIRED,
        "child_environment": "another process reads the variable",
        "device_count": REPAIRED,
        "own_environment_then_child": "another process reads the variable",
        "renumbered": {"visible": "1", "device": "cuda:0"},
        "setdefault": "it does nothing where the variable is set",
    },
    "wrapped-twice": {
        "first_epoch_only": REPAIRED,
        "fresh_model": {"already": ""},
        "guards": {"already": ""},
        "other_name": {"already": ""},
        "unwrapped_first": {"already": ""},
    },
    "wrapper-attribute-read": {
        "tried": REPAIRED,
        "compiled": "this wrapper passes attributes on",
        "early_read": {"wrapper": ""},
        "forwarding_subclass": "this wrapper passes attributes on",
        "guards": REPAIRED,
        "module": REPAIRED,
        "own_fields": {"name": "device_ids"},
    },
    "wrapper-state-dict-prefix": {
        "keys_looked_at": {"prefixed": False, "into_wrapper": False},
        "tried": "the exception is dealt with",
        "load_then_wrap": {"prefixed": False, "into_wrapper": False},
        "module_state_dict": REPAIRED,
        "strip_prefix": {"prefixed": False, "into_wrapper": False},
        "symmetric": {"prefixed": True, "into_wrapper": True},
        "unwrap_helper": {"prefixed": False, "into_wrapper": False},
    },
}
"""By rule and fixture: the facts of the program, or why no experiment can have them."""

CASES = [
    pytest.param(rule, facts, id=f"{rule}/{fixture}")
    for rule, fixtures in LOOK_ALIKES.items()
    for fixture, facts in fixtures.items()
    if isinstance(facts, dict)
]


@pytest.mark.parametrize(("rule", "facts"), CASES)
def test_a_look_alike_is_refuted(rule: str, facts: dict[str, Any], probe) -> None:
    verdict = probe(rule, **facts).verdict
    assert verdict.outcome is Outcome.REFUTED, verdict.observed


@pytest.mark.parametrize("rule", LOOK_ALIKES)
def test_every_look_alike_is_here(rule: str) -> None:
    there = {path.stem.removeprefix("silent_") for path in (FIXTURES / rule).glob("silent_*")}
    assert set(LOOK_ALIKES[rule]) == there

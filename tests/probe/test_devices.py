"""The devices on which an experiment runs."""

from __future__ import annotations

from typing import Any

import pytest

from placement_lint.probe.devices import TooFew, choose
from placement_lint.probe.experiment import Experiment
from placement_lint.probe.sandbox import Inventory

NO_CARD, CARD, CARDS = (Inventory("2.13.0", ("NVIDIA H200",) * count) for count in (0, 1, 2))


def experiment(**details: Any) -> Experiment:
    return Experiment("claim", print, print, (), **details)  # type: ignore[arg-type]


REPLICAS = experiment(facts={"device_ids": [0, 1]}, one_gpu={"device_ids": [0, 0]})
PAIR = experiment(facts={"place": "cuda:1"})
ONE = experiment(gpus=1)
NONE = experiment()
MAC = experiment(facts={"place": "mps:0"})


@pytest.mark.parametrize(
    ("mode", "of", "found", "name", "simulate"),
    [
        ("auto", PAIR, CARDS, "2 × NVIDIA H200", None),
        ("auto", PAIR, CARD, "2 simulated GPUs", 2),
        ("auto", ONE, CARD, "NVIDIA H200", None),
        ("auto", ONE, NO_CARD, "2 simulated GPUs", 2),
        ("auto", REPLICAS, CARD, "NVIDIA H200", None),
        ("auto", NONE, NO_CARD, "CPU", None),
        ("simulated", ONE, CARDS, "2 simulated GPUs", 2),
        ("simulated", NONE, NO_CARD, "2 simulated GPUs", 2),
        ("gpu", PAIR, CARDS, "2 × NVIDIA H200", None),
        ("gpu", REPLICAS, CARD, "NVIDIA H200", None),
        ("gpu", NONE, NO_CARD, "CPU", None),
        ("auto", MAC, CARDS, "1 simulated MPS device", 1),
        ("simulated", MAC, NO_CARD, "1 simulated MPS device", 1),
    ],
)
def test_the_choice(mode: str, of: Experiment, found: Inventory, name: str, simulate: int | None) -> None:
    ground = choose(mode, of, of.completed({}), found)
    assert (ground.name, ground.simulate) == (name, simulate)


def test_one_card_makes_two_replicas() -> None:
    assert choose("gpu", REPLICAS, REPLICAS.completed({}), CARD).facts == {"device_ids": [0, 0]}


def test_a_fact_names_the_kind_of_gpu() -> None:
    assert choose("auto", PAIR, PAIR.completed({}), NO_CARD).kind == "cuda"
    assert choose("auto", MAC, MAC.completed({}), NO_CARD).kind == "mps"
    assert choose("auto", MAC, MAC.completed({"place": "xpu"}), NO_CARD).kind == "xpu"


def test_as_many_are_simulated_as_the_facts_name() -> None:
    assert choose("simulated", PAIR, {"place": "cuda:3"}, NO_CARD).simulate == 4
    assert choose("simulated", REPLICAS, {"device_ids": (0, 4)}, NO_CARD).simulate == 5


@pytest.mark.parametrize(
    ("mode", "of", "facts", "found", "reason"),
    [
        ("gpu", PAIR, {}, CARD, "needs 2 GPUs, found 1"),
        ("gpu", REPLICAS, {}, NO_CARD, "needs 2 GPUs, found 0"),
        ("gpu", REPLICAS, {"place": "cuda:1"}, CARD, "needs 2 GPUs, found 1"),
        ("gpu", ONE, {}, NO_CARD, "needs 1 GPU, found 0"),
        ("gpu", MAC, {}, CARDS, "needs an MPS device"),
        ("auto", PAIR, {"place": "cuda:99"}, CARD, "at most 16 are simulated"),
    ],
)
def test_too_few(mode: str, of: Experiment, facts: dict[str, Any], found: Inventory, reason: str) -> None:
    with pytest.raises(TooFew, match=reason):
        choose(mode, of, of.completed(facts), found)

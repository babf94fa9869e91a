"""Data, options and downloads are replaced by values that a slice can have."""

from __future__ import annotations

from textwrap import dedent

import pytest
from replaying import case_of, sliced

from placement_lint.finding import Outcome
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Replayer

TRAINING = """
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms


class Scenes(Dataset):
    def __init__(self, root):
        self.files = root.glob("*.png")

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return transforms.ToTensor()(Image.open(self.files[i])), i % 2


def get_loaders(root):
    return DataLoader(read_all(root)), DataLoader(read_all(root))


def read_all(root):
    return [Image.open(file) for file in root]


class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.layer = LAYER

    def forward(self, x):
        return self.layer(x)


model = Net().cuda()
SOURCE
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images.cuda()), labels)
    loss.backward()
"""

IMAGES = "nn.Sequential(nn.Conv2d(width, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 10))"
DIGITS = "nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))"


@pytest.mark.parametrize(
    ("layer", "source", "stand_in"),
    [
        (
            DIGITS,
            'loader = DataLoader(datasets.MNIST("data", download=True, transform=None), num_workers=8)',
            "torch.utils.data.TensorDataset(torch.randn(8, 1, 28, 28), torch.randint(0, 2, (8,)))",
        ),
        (
            IMAGES,
            'loader = DataLoader(datasets.ImageFolder("data"), batch_size=4)',
            "torch.utils.data.TensorDataset(torch.randn(8, 3, 32, 32), torch.randint(0, 2, (8,)))",
        ),
        (IMAGES, "loader = DataLoader(Scenes('data'))", "TensorDataset(torch.randn(8, 3, 32, 32)"),
        (
            "nn.Linear(12, 3)",
            'loader = [(torch.from_numpy(np.load("x.npy")), torch.ones(8).long())]',
            "(8, 12).numpy()",
        ),
    ],
)
def test_data_is_replaced_by_tensors(layer: str, source: str, stand_in: str, prober: Prober) -> None:
    case = case_of(TRAINING.replace("LAYER", layer).replace("SOURCE", source), "DPL503")
    text = case.smallest.text
    assert stand_in in text
    for gone in ("torchvision", "PIL", "download", "num_workers=8"):
        assert gone not in text
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


def test_shapes_are_fitted(prober: Prober) -> None:
    layer = "nn.Sequential(nn.Conv2d(width, 4, 3), nn.Flatten(), nn.Linear(4 * 62 * 62, 10))"
    source = 'loader = DataLoader(datasets.ImageFolder("data"), batch_size=4)'
    verdict, _ = Replayer(prober).replayed(
        case_of(TRAINING.replace("LAYER", layer).replace("SOURCE", source), "DPL503")
    )
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "shapes" in verdict.observed


def test_an_option_names_another_device() -> None:
    text = """
    import argparse
    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--name", required=True)
    args = parser.parse_args()
    model = nn.Linear(4, 2).to(args.device)
    print(args.name, model(torch.randn(8, 4).cuda()))
    """
    slice_ = sliced(dedent(text), "DPL506")
    assert 'parser.add_argument("--device", default="cpu")' in slice_


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ('"--rank", "-r"', "RANK"),
        ('"--rank", "--local_rank"', "LOCAL_RANK"),
        ('"--local-rank", dest="gpu"', "LOCAL_RANK"),
    ],
)
def test_an_option_has_what_a_launcher_gives_it(names: str, told: str) -> None:
    text = f"""
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument({names}, default=0, type=int)
    args = parser.parse_args()
    print(args, torch.ones(2).cuda().numpy())
    """
    supply = next(case_of(dedent(text), "DPL507").slices()).supply
    assert any(f'environ.get("{told}", 0)' in edit for edit in supply.values())


def test_an_option_is_known_by_where_it_goes() -> None:
    text = """
    import argparse
    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--device", "-d", default="cuda")
    parser.add_argument("--where", dest="place", default="cuda")
    args = parser.parse_args()
    model = nn.Linear(4, 2).to(args.{name})
    print(model(torch.randn(8, 4).cuda()))
    """
    assert '"-d", default="cpu"' in sliced(dedent(text.replace("{name}", "device")), "DPL506")
    assert 'dest="place", default="cpu"' in sliced(dedent(text.replace("{name}", "place")), "DPL506")


def test_an_option_stays_unset_where_the_finding_says_so(prober: Prober) -> None:
    text = """
    import argparse
    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--root")
    args = parser.parse_args()
    with open(args.root + "/settings") as file:
        print(file.read())
    net = nn.Linear(4, 2).cuda()
    x = torch.ones(2, 4)
    if args.gpu is not None:
        x = x.cuda(args.gpu)
    net(x)
    """
    case = case_of(dedent(text), "DPL503")
    assert case.smallest.unset == {"gpu"}
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "--gpu" not in verdict.observed


def test_a_model_that_was_saved_whole_is_no_number(prober: Prober) -> None:
    text = """
    import torch
    from torch import nn
    from torch.nn import functional as F

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    checkpoint = torch.load("best.tar")
    print(checkpoint["epoch"] + 1)
    model = checkpoint["model"]
    model = model.to(device)
    model.eval()
    out = nn.Linear(8, 2).to(device)(torch.randn(4, 8).to(device))
    F.cross_entropy(out, torch.zeros(4).long())
    """
    case = case_of(dedent(text), "DPL503")
    assert "stored(" not in case.smallest.text
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    state = dedent(text).replace(
        "model = model.to(device)\nmodel.eval()", "net = nn.Linear(8, 2)\nnet.load_state_dict(model)"
    )
    assert "'model': net.state_dict()" in case_of(state, "DPL603").smallest.text


@pytest.mark.parametrize(
    ("options", "condition", "default"),
    [
        ('"--fast", type=int, default=1', "not args.fast", "default=0"),
        ('"--fast", type=bool, default=True', "not args.fast", "default=False"),
        ('"--fast", type=int, default=0', "args.fast", "default=1"),
    ],
)
def test_an_option_is_as_the_condition_of_a_finding_says(options: str, condition: str, default: str) -> None:
    text = f"""
    import argparse
    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument({options})
    args = parser.parse_args()
    model, x = nn.Linear(4, 2).cuda(), torch.randn(8, 4)
    if {condition}:
        print(model(x))
    """
    supply = next(case_of(dedent(text), "DPL503").slices()).supply
    assert any(default in edit for edit in supply.values()), supply.values()


def test_an_option_of_click_as_well() -> None:
    text = """
    import click
    import torch
    from torch import nn

    @click.command()
    @click.option("--load_model", type=click.Path(exists=True), default=None)
    def main(load_model):
        model, x = nn.Linear(4, 2).cuda(), torch.randn(8, 4)
        if load_model:
            print(model(x))

    main()
    """
    supply = next(case_of(dedent(text), "DPL503").slices()).supply
    assert any('default="data"' in edit for edit in supply.values())

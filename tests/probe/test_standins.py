"""Packages, files and options that a slice lacks get stand-ins, which a verdict names and which never decide it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from replaying import OnlySlices, accused, case_of

from placement_lint.finding import Outcome, Verdict
from placement_lint.probe import preludes
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Replayer


def ran(program: str, folder: Path, everything: bool = False) -> str:
    """What a program prints in an empty folder, with a prelude and nothing else of this project."""
    text = dedent(program).lstrip()
    text = preludes.with_prelude(
        text, preludes.Lack(frozenset(preludes.missing_packages(text, ())), everything).prelude
    )
    (folder / "slice.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-I", "slice.py"]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def verdict_of(program: str, rule: str, prober: Prober) -> Verdict:
    return Replayer(prober).replayed(case_of(dedent(program), rule))[0]


TRAINING = """
import argparse
import torch
from absent import helpers, nets, sets
from absent.progress import bar

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--rate", type=float, required=True)
parser.add_argument("--size", choices=(4, 2), type=int, required=True)
args = parser.parse_args()


class Noted(helpers.Base):
    @helpers.quick
    def note(self, loss):
        self.logger.info(loss)
        return loss


data = sets.Cifar(args.data, transform=sets.Compose([sets.ToTensor()]))
loader = torch.utils.data.DataLoader(data, batch_size=args.size, shuffle=True)
model = nets.models.deep(num_classes=10)
model.fc = torch.nn.Linear(model.fc.in_features, 10)
optimizer = torch.optim.Adam(model.parameters(), lr=args.rate)
noted = Noted().train().to("cpu")
rounds = 0
for images, labels in bar(loader):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    noted.note(loss.item())
    rounds += 1
print(rounds, tuple(images.shape), args.size, args.rate)
"""


def test_a_program_trains_on_stand_ins(tmp_path: Path) -> None:
    assert ran(TRAINING, tmp_path) == "2 (4, 3, 32, 32) 4 1.0"


def test_models_of_torchvision_have_their_parts(tmp_path: Path) -> None:
    program = """
    import torch
    from torchvision import models

    rows = []
    for name in ("resnet50", "vgg16_bn", "mobilenet_v2", "densenet121"):
        model = models.__dict__[name](num_classes=3)
        head = model.fc if name == "resnet50" else model.classifier
        last = head if isinstance(head, torch.nn.Linear) else head[-1]
        rows.append((len(list(last.parameters())), last.in_features > 0, tuple(model(torch.rand(2, 3, 64, 64)).shape)))
    print(rows == [(2, True, (2, 3))] * 4, models.resnet18().layer1[0].out_channels > 0)
    print(models.resnet18().fc.in_features, torch.nn.Sequential(*list(models.resnet50().children())[:-2])[-1][0])
    """
    first, second = ran(program, tmp_path).splitlines()
    assert first == "True True"
    assert second.startswith("512 Conv2d(16, 2048")


def test_sizes_and_texts_of_stand_ins(tmp_path: Path) -> None:
    program = """
    import re
    import torch
    from absent import Registry, data

    MODELS = Registry("models")

    @MODELS.register_module()
    class Net:
        pass

    rows, count = data.x.shape
    assert data.read().max() > 1 and not data.read() < 0
    print(len(range(rows * count)), data.x.size()[0], bool(re.match("data", data.name)), Net.__name__)
    """
    assert ran(program, tmp_path) == "64 8 True Net"


def test_a_checkpoint_is_saved_in_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    program = """
    import torch
    torch.save(torch.ones(2), "runs/first/best.pt")
    print(torch.load("runs/first/best.pt").tolist())
    """
    assert ran(program, tmp_path) == "[1.0, 1.0]"


def test_input_without_a_terminal(tmp_path: Path) -> None:
    program = """
    count = int(input())
    answer = input().lower()
    print(count, answer in ("y", "yes"), answer == "n")
    """
    assert ran(program, tmp_path) == "1 True False"


def test_commands_that_fail_have_an_output(tmp_path: Path) -> None:
    program = """
    import subprocess
    import absent

    print(subprocess.check_output(["false"]), subprocess.check_output("exit 3", shell=True, text=True).strip())
    """
    assert ran(program, tmp_path) == r"b'0\n' 0"


def test_ranks_make_the_same_folder(tmp_path: Path) -> None:
    program = """
    import os
    os.environ["WORLD_SIZE"] = "2"
    os.mkdir("weights")
    os.mkdir("weights")
    os.environ["WORLD_SIZE"] = "1"
    try:
        os.mkdir("weights")
    except FileExistsError:
        print("of the same rank")
    """
    assert ran(program, tmp_path) == "of the same rank"


def test_a_library_asks_a_model_for_private_names(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import models

    store = torch.distributed.FileStore("store", 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    model = models.net().to("cpu")
    torch.nn.parallel.DistributedDataParallel(model)
    print([name for name, _ in model.named_children() if name.startswith("_")])
    """
    assert ran(program, tmp_path) == "[]"


def test_files_have_what_their_reader_wants(tmp_path: Path) -> None:
    program = """
    import glob, json, os, pickle
    import numpy as np
    import torch
    from torch import nn

    names = [line.split()[0] for line in open("gone/list.txt")]
    words = json.load(open("gone/words.json"))
    vectors = torch.from_numpy(np.load("gone/vectors.npy"))
    with open("gone/all.pkl", "rb") as file:
        table = pickle.load(file)
    try:
        json.load(open("gone/closed.json").close() or file)
    except ValueError as error:
        assert "closed file" in str(error)
    model = nn.Sequential(nn.Embedding(len(words), 4), nn.Linear(4, 2))
    before = model[1].weight.clone()
    model.load_state_dict(torch.load("gone/best.pt")["state_dict"])
    print(len(names), len(words), vectors.is_floating_point(), len(table["rows"]), torch.equal(before, model[1].weight))
    print(len(os.listdir("gone")), len(glob.glob("gone/*.png")))
    with open("here.txt", "w") as file:
        file.write("mine")
    print(open("here.txt").read())
    """
    assert ran(program, tmp_path).split() == ["8", "8", "True", "8", "True", "8", "8", "mine"]


def test_files_are_opened_in_other_ways(tmp_path: Path) -> None:
    program = """
    import codecs, csv
    from pathlib import Path

    names = [line.split(",")[2] for line in codecs.open("gone/list.txt", "r", "utf-8")]
    name, label, speaker = Path("gone/list.txt").read_text().split("|")
    for first, second in csv.reader(open("gone/list.csv")):
        assert int(second)
    print(len(names), int(label))
    """
    assert ran(program, tmp_path) == "8 7"


def test_documents_have_lists_and_texts(tmp_path: Path) -> None:
    program = """
    import json
    import torch

    words = {}
    for article in json.load(open("gone/articles.json"))["data"]:
        for paragraph in article["paragraphs"]:
            words[paragraph["text"].lower()] = len(paragraph["questions"])
    print({type(word).__name__ for word in words}, sum(words.values()) > 0)
    """
    assert ran(program, tmp_path) == "{'StandIn'} True"


def test_samples_and_batches_may_be_larger_than_the_data(tmp_path: Path) -> None:
    program = """
    import random
    import numpy as np
    import torch
    from absent import Rows, config

    random.seed(config.seed)
    np.random.seed(config.seed)
    rows = np.random.choice(np.arange(3), 5, replace=False)
    loader = torch.utils.data.DataLoader(Rows(), 64, drop_last=True)
    torch.utils.data.DataLoader(Rows(), batch_size=config.size)
    layers = torch.nn.LayerNorm(config.width), torch.nn.Linear(config.width, 2), torch.nn.Dropout(config.drop)
    print(len(rows), len(random.sample([1, 2], 3)), len(np.random.choice([], 2, False)), len(list(loader)), len(layers))
    print(Rows()[rows].shape[0], np.random.choice(4, 2, replace=False).max() < 4)
    """
    assert ran(program, tmp_path).split() == ["5", "3", "2", "1", "3", "5", "True"]


def test_options_that_no_command_line_has(tmp_path: Path) -> None:
    program = """
    import argparse, sys
    import absent

    sys.argv += WORDS
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--most", type=int)
    parser.add_argument("--name", required=True)
    print(*vars(parser.parse_args()).values())
    """
    for words, expected in (([], "data/0 None data/0"), (["--name=a"], "None None a")):
        assert ran(program.replace("WORDS", repr(words)), tmp_path, everything=True) == expected


def test_what_a_parser_refuses_is_left_out(tmp_path: Path) -> None:
    program = """
    import argparse, sys
    import absent

    sys.argv += WORDS
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--net", choices=("deep", "flat"))
    parser.add_argument("--name", default="none")
    print(*vars(parser.parse_args()).values(), len(sys.argv))
    """
    told = {
        "--rows many --net any --name mine": "3 deep mine 7",
        "--name mine (default: none)": "3 None mine 5",
        "--name mine --rows": "3 None none 1",
    }
    for words, expected in told.items():
        assert ran(program.replace("WORDS", repr(words.split())), tmp_path) == expected


def test_an_import_from_a_package_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("from ..places import place\n", encoding="utf-8")
    (tmp_path / "places.py").write_text("place = 'here'\n", encoding="utf-8")
    (tmp_path / "home.py").write_text("from . import places\nfrom .parts import place\n", encoding="utf-8")
    program = """
    import importlib, sys
    import absent

    sys.path.insert(0, ".")
    home = importlib.import_module("home")
    print(home.place, home.places.place)
    try:
        from .gone import place
    except ModuleNotFoundError as error:
        print(error.name)
    """
    assert ran(program, tmp_path).splitlines() == ["here here", "gone"]


def test_packages_of_folders_that_a_program_adds(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "parts.py").write_text("place = 'here'\n", encoding="utf-8")
    program = """
    import sys
    import absent

    sys.path.append("core")
    from parts import place
    print(place, absent.place)
    """
    assert ran(program, tmp_path) == "here data/0"


def test_parts_of_a_layer_are_where_it_is(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import models

    net = models.Net().to("meta")
    print(net.head2.weight.device, {one.device.type for one in net.parameters()})
    """
    assert ran(program, tmp_path) == "meta {'meta'}"


def test_what_is_put_together_with_a_text_is_one(tmp_path: Path) -> None:
    program = """
    from absent import tales

    train, test = tales.read("data")
    numbers = {letter: i for i, letter in enumerate(sorted(set(train + " " + test)))}
    print(len({numbers[train[i]] for i in range(len(train))}), len(test) > 1000, {numbers[one] for one in test[:3]})
    """
    assert ran(program, tmp_path) == "5 True {3, 4, 5}"


def test_files_are_of_the_kind_that_is_listed(tmp_path: Path) -> None:
    program = """
    import os
    import absent

    images = [os.path.join("gone", name) for name in os.listdir("gone") if name.endswith((".jpg", ".tif"))]
    clean = [name for name in os.listdir("gone") if name.find("clean") > -1]
    walked = [name for _, _, names in os.walk("gone") for name in names if name.endswith(".npy")]
    print(len(images), images[0], len(clean), len(walked))
    """
    assert ran(program, tmp_path) == f"8 {Path('gone/0.png')} 8 8"


def test_weights_of_another_size_are_copied(tmp_path: Path) -> None:
    program = """
    import torch
    from torchvision import models

    deep, layer = models.vgg16(), torch.nn.Conv2d(5, 7, 3)
    layer.weight.data.copy_(deep.classifier[0].weight.data)
    layer.bias.data.copy_(torch.ones(1))
    print(layer.weight.device, layer.bias.sum().item())
    """
    assert ran(program, tmp_path) == "cpu 7.0"


def test_a_guarded_import_stays_missing(tmp_path: Path) -> None:
    program = """
    import absent
    try:
        import others
    except ImportError:
        others = None
    print(others, absent.name)
    """
    assert ran(program, tmp_path) == "None data/0"


@pytest.mark.parametrize(
    "kind", ["Linear(12, 3)", "Conv2d(5, 3, 3)", "LSTM(7, 3)", "Embedding(9, 3)", "BatchNorm2d(6)"]
)
def test_shapes_are_fitted_and_places_are_not(kind: str, tmp_path: Path) -> None:
    program = f"""
    import absent
    import torch
    layer = torch.nn.{kind}.to("meta")
    batch, _ = next(iter(torch.utils.data.DataLoader(absent.Data())))
    out = layer(batch.to("meta"))
    print((out[0] if isinstance(out, tuple) else out).device)
    """
    assert ran(program, tmp_path) == "meta"


FAULT = """
import torch
from torch import nn
from absent import Images, draw

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(100, 2)).cuda()
for images, labels in torch.utils.data.DataLoader(Images("data"), batch_size=4):
    loss = nn.functional.cross_entropy(model(images.cuda()), labels)
    loss.backward()
"""


def test_stand_ins_are_named(prober: Prober) -> None:
    verdict = verdict_of(FAULT, "DPL503", prober)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "with stand-ins for absent.Images" in verdict.observed
    assert "draw" not in verdict.observed


def test_what_a_stand_in_raises_is_no_symptom(prober: Prober) -> None:
    program = """
    import torch
    from absent import Box

    box = Box()
    box.keep(torch.ones(2).cuda())
    box.kept.numbers()[torch.tensor([0, 1]).cuda().numpy(), box, "a"]
    """
    verdict = verdict_of(program, "DPL507", prober)
    assert verdict.outcome is not Outcome.REFUTED


def test_a_program_with_stand_ins_is_not_refuted(prober: Prober) -> None:
    program = """
    import torch
    from absent import on_gpu

    model = torch.nn.Linear(4, 2).cuda()
    for batch in [torch.randn(8, 4)]:
        batch = on_gpu(batch)
        target = torch.zeros(8, dtype=torch.long)
        print(torch.nn.functional.cross_entropy(model(batch.cuda()), target.to(on_gpu.device)))
    """
    for finding in ("DPL503", "DPL506"):
        try:
            verdict = verdict_of(program, finding, prober)
        except StopIteration:
            continue
        assert verdict.outcome is not Outcome.REFUTED, verdict.observed


def test_an_option_is_the_choice_that_the_program_compares_it_with(tmp_path: Path) -> None:
    program = """
    import argparse
    import absent

    parser = argparse.ArgumentParser()
    parser.add_argument("--net", type=str, required=True)
    parser.add_argument("--way", required=True)
    args = parser.parse_args()
    chosen = "small" if args.net == "small" else "none"
    assert args.way.lower() in ("fast", "slow") and args.way == "fast" and args.way != "slow"
    print(chosen, args.net == "large")
    """
    assert ran(program, tmp_path) == "small False"


def test_what_a_layer_gives_is_unpacked(tmp_path: Path) -> None:
    program = """
    import absent
    import torch

    net = absent.models.Net()
    out, (hidden, cell), _ = net(torch.ones(2, 16)), net(torch.ones(2, 16)), absent.draw(torch.ones(1))
    one, two, three = absent.split(torch.ones(3))
    layer = torch.nn.Linear(2, 2)
    same, rows, rate = absent.prepare(layer, [1, 2], 0.1)
    assert same is layer and rows == [1, 2] and absent.prepare(layer, 0.1) is layer
    print(out.requires_grad, hidden.shape == cell.shape, three.shape)
    """
    assert ran(program, tmp_path) == "True True torch.Size([3])"


def test_a_configuration_has_what_it_was_given(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import Config, metric, settings

    config = Config({"classes": 3, "name": "net"})
    config.path, config.train = "here", {"lr": 0.5}
    total = 0
    total += metric(8)
    rate = settings.train.rate * 2.0
    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=rate)
    print(config.classes, config["name"], config.path, config.train["lr"], "%.1f" % total, settings.type.rows[0] > 2)
    """
    assert ran(program, tmp_path) == "3 net here 0.5 0.5 True"


def test_a_batch_without_a_dimension_is_no_sample(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import scans
    from torch import nn

    net = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4))
    print(net(torch.randn(8, 1, 6, 6)).shape[:2], nn.Conv2d(3, 4, 3)(torch.randn(3, 6, 6)).shape)
    """
    assert ran(program, tmp_path) == "torch.Size([8, 4]) torch.Size([4, 4, 4])"


def test_the_names_of_items_are_texts(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import nets

    weights = nets.load("best.params")
    renamed = {}
    for key, value in weights.items():
        if "gamma" in key:
            key = key.replace("gamma", "weight")
        renamed[key] = torch.from_numpy(value.asnumpy())
    print(len(renamed), {type(one) for one in renamed.values()}, all(key.startswith("data") for key in weights.keys()))
    print(dict(**nets.Munch(one=1, two=2)), nets.Munch(one=1)["one"], dict(**weights).keys() == {*weights.keys()})
    """
    first, second = ran(program, tmp_path).splitlines()
    assert first == "8 {<class 'torch.Tensor'>} True"
    assert second == "{'one': 1, 'two': 2} 1 True"


def test_a_name_is_looked_up_in_a_package(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import models

    names = sorted(name for name in models.__dict__ if name.islower() and not name.startswith("__"))
    net = models.__dict__["deep"](num_classes=3)
    print(names, isinstance(net, torch.nn.Module), net(torch.ones(2, 3, 8, 8)).shape)
    """
    assert ran(program, tmp_path) == "[] True torch.Size([2, 3])"


def test_relative_imports_are_those_of_the_folder(prober: Prober, tmp_path: Path) -> None:
    folder = tmp_path / "package" / "training"
    folder.mkdir(parents=True)
    (folder / "places.py").write_text("place = 'data'\n", encoding="utf-8")
    (folder.parent / "sizes.py").write_text("size = 4\n", encoding="utf-8")
    program = "from .places import place\nfrom ..sizes import size\n" + dedent(FAULT)
    program = program.replace("nn.Conv2d(3, 4, 3)", "nn.Conv2d(3, size, 3)").replace('Images("data")', "Images(place)")
    replayer = Replayer(prober, (str(folder), str(tmp_path)))
    verdict, _ = replayer.replayed(case_of(program, "DPL503"))
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


def test_old_programs_find_what_libraries_had(prober: Prober) -> None:
    program = """
    import numpy as np
    import torch
    from torch import nn
    import time
    from torch._utils import _accumulate
    from torch.autograd.gradcheck import zero_gradients
    from absent import Images

    torch.utils.data.DataLoader(Images("data"), batch_size=4).__iter__().next()
    ends = list(_accumulate(np.array([4, 4]).astype(np.int))) if time.clock() > 0 else []
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(100, 2)).cuda()
    for images, labels in torch.utils.data.DataLoader(Images("data"), batch_size=int(ends[0]), pin_memory=True):
        zero_gradients(images)
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        print(loss.data[0])
        nn.functional.cross_entropy(model(images.cuda()), labels).backward()
    """
    verdict = verdict_of(program, "DPL503", prober)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "torch.autograd.gradcheck.zero_gradients" in verdict.observed
    verdict = verdict_of(program.replace("import _accumulate", "import _of_nobody"), "DPL503", prober)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "stand-ins for `ends = list(_accumulate(" in verdict.observed


RESUMED = """
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--resume")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
if args.resume:
    state = torch.load(args.resume{where})
    model.load_state_dict(state["model"])
torch.save({{"model": model.state_dict()}}, "best.pt")
"""


def test_a_checkpoint_comes_from_a_gpu_that_is_not_there(prober: Prober) -> None:
    verdict = verdict_of(RESUMED.format(where=""), "DPL603", prober)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "with stand-ins for the option --resume, torch.load: RuntimeError: Attempting" in verdict.observed


@pytest.mark.parametrize(
    "files",
    [
        {"words.py": "print 'of Python 2'\n"},
        {
            "words.py": "from parts import told\n",
            "parts/__init__.py": "from . import _compiled\ntold = _compiled.told\n",
        },
    ],
)
def test_a_module_that_is_no_python_has_a_stand_in(files: dict[str, str], prober: Prober, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    program = dedent(FAULT).replace("import torch\n", "import torch\nfrom words import told\n", 1) + "told(loss)\n"
    verdict = Replayer(prober, (str(tmp_path),)).replayed(case_of(program, "DPL503"))[0]
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed


def test_data_that_cannot_be_read_has_stand_ins(tmp_path: Path) -> None:
    program = """
    import absent
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Images(Dataset):
        def __init__(self, folder):
            self.classes, self.rows = [], []
            self.header = open("gone/rows.txt").header

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            return self.rows[index], 0

    class OnGPU(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return torch.zeros(3).to("cuda")

    for images, labels in DataLoader(Images("gone"), batch_size=4):
        print(tuple(images.shape), tuple(labels.shape), images.device)
    print(len(Images("gone").header), sum(1 for _ in Images("gone")))
    try:
        next(iter(DataLoader(OnGPU())))
    except (AssertionError, RuntimeError) as error:
        print("CUDA" in str(error) or "device" in str(error))
    """
    assert ran(program, tmp_path).splitlines() == ["(4, 3, 64, 64) (4,) cpu"] * 2 + ["8 8", "True"]


def test_what_is_asked_for_is_a_folder_or_a_file(tmp_path: Path) -> None:
    program = """
    import os
    print([os.path.exists(path) for path in ("gone/rows", "gone/images")])
    if os.path.exists("gone/results"):
        raise ValueError("results of an earlier run")
    if not os.path.exists("gone/images"):
        raise ValueError("no images")
    print(len(open("gone/rows").readlines()), len(os.listdir("gone/images")))
    os.mkdir("runs/first")
    with open("runs/first/log", "w") as file:
        file.write("mine")
    print(open("runs/first/log").read())
    """
    assert ran(program, tmp_path, everything=True).splitlines() == ["[True, True]", "8 8", "mine"]


COMMANDS = """
import click
import torch


@click.group()
@click.pass_context
def main(context):
    print(context.info_name)


@main.command()
@click.option("--rows", type=int, required=True)
def other(rows):
    raise ValueError(rows)


@main.command(help="train")
@click.option("--config", type=click.File(), required=True)
@click.option("--kind", type=click.Choice(["one", "two"]), required=True)
@click.option("--rows", type=int, required=True)
@click.argument("folder", type=click.Path(exists=True))
def train(config, kind, rows, folder):
    assert kind == "one" and len(config.read()) and folder
    net = torch.nn.Linear(4, 2).cuda()
    net(torch.ones(rows, 4){moved})


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("moved", "outcome"), [("", Outcome.CONFIRMED), (".cuda()", Outcome.INCONCLUSIVE)])
def test_the_command_of_a_finding_is_run(moved: str, outcome: Outcome, prober: Prober) -> None:
    text = COMMANDS.format(moved=moved)
    case = accused(text, f"net(torch.ones(rows, 4){moved})", "net(torch.ones(rows, 4).cuda())")
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is outcome, verdict.observed


def test_dicts_of_packages_have_what_they_are_given(tmp_path: Path) -> None:
    assert (
        ran(
            """
        from absent import AbsentDict

        config = AbsentDict({"model": {"width": 4}})
        config.epochs = 2
        config["rates"] = AbsentDict()
        nested = isinstance(config.model, AbsentDict) and not isinstance(config.epochs, AbsentDict)
        print(config.model.width, sorted(config), nested, getattr(config, "depth", None))
        """,
            tmp_path,
        )
        == "4 ['epochs', 'model', 'rates'] True None"
    )


def test_configurations_of_packages_read_files(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("MODEL:\n  WIDTH: 4\n  RATES: (1, 2)\nNAME: deep\n", encoding="utf-8")
    program = """
    from absent import CfgNode

    config = CfgNode()
    config.MODEL = CfgNode({"WIDTH": 1, "DEPTH": 3})
    config.NAME = ""
    config.merge_from_file("deep.yaml")
    config.merge_from_list(["MODEL.DEPTH", "5", "NAME", "wide"])
    config.freeze()
    print(config.MODEL.WIDTH, config.MODEL.DEPTH, config.MODEL.RATES, config.NAME)
    with open("deep.yaml") as file:
        print(Settings.load(file).MODEL["WIDTH"], Settings.load("gone.yaml").MODEL)
    """.replace("import CfgNode", "import CfgNode, Settings")
    pytest.importorskip("yaml")
    assert ran(program, tmp_path).splitlines() == ["4 5 (1, 2) wide", "4 data/0"]


def test_classes_of_packages_are_made_from_what_was_trained(tmp_path: Path) -> None:
    assert (
        ran(
            """
        import torch
        from absent import PreTrainedModel

        class Net(PreTrainedModel):
            def __init__(self, config):
                super().__init__(config)
                self.head = torch.nn.Linear(4, 2)

        print(Net.from_pretrained(pretrained_model_name_or_path="name").head(torch.ones(1, 4)).shape)
        """,
            tmp_path,
        )
        == "torch.Size([1, 2])"
    )


def test_pools_work_without_processes(tmp_path: Path) -> None:
    assert (
        ran(
            """
        from absent import bar
        from multiprocessing import Pool

        with Pool(4) as pool:
            print(pool.map(abs, [-1, -2]))
        """,
            tmp_path,
        )
        == "[1, 2]"
    )


def test_stand_ins_can_be_saved(tmp_path: Path) -> None:
    program = """
    import argparse
    import pickle
    import torch
    from absent import models, thing

    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    options = parser.parse_args()
    pickled = pickle.loads(pickle.dumps((options, options.name, thing, thing(3))))
    torch.save(models.deep(3), "runs/net.pt")
    print(pickled[0].name == options.name, torch.load("runs/net.pt")(torch.rand(2, 3, 8, 8)).shape)
    """
    assert ran(program, tmp_path) == "True torch.Size([2, 8])"


def test_tables_have_rows_of_numbers(tmp_path: Path) -> None:
    program = """
    import numpy

    table = numpy.genfromtxt("nodes.content", dtype=numpy.dtype(str))
    names = {name: i for i, name in enumerate(table[:, 0])}
    numbers, label = numpy.loadtxt("rows", usecols=(0, 3), unpack=True)
    print(len(names) == len(table), len(set(table[:, -1])), table[:, 1:-1].astype(float).ndim, numbers[2], label[0])
    """
    assert ran(program, tmp_path) == "True 8 2 2.0 3.0"


CALLED = """
import click


@click.command()
@click.argument("folder", type=click.Path(exists=True))
@click.option("--model", type=click.Path(exists=True))
@click.option("--rate", type=int, default=0, multiple=True)
def main(folder, model, rate):
    print(folder, model, rate)


if __name__ == "__main__":
    import sys

    sys.argv[1:] = WORDS
    main()
"""


def test_what_click_refuses_today(tmp_path: Path) -> None:
    answers = {(): "data/0 None (0,)", ("gone/a", "--model", "gone/b", "--rate", "3"): "gone/a gone/b (3,)"}
    for words, expected in answers.items():
        assert ran(CALLED.replace("WORDS", repr([*words])), tmp_path) == expected


def test_extensions_are_not_compiled(tmp_path: Path) -> None:
    program = """
    import torch
    from torch.utils import cpp_extension
    from torch.utils.cpp_extension import load

    first, second = load("first", sources=["first.cpp"]), cpp_extension.load_inline("second", cpp_sources="")
    x = torch.rand(2, 3)
    print(first.forward(x, 3) is x, second.grown(x, scale=2) is x)
    """
    assert ran(program, tmp_path) == "True True"


def test_a_folder_that_was_made_up_is_a_file_as_well(tmp_path: Path) -> None:
    program = """
    import os
    import torch

    print(os.path.isdir("runs/first"), torch.load("runs")["epoch"] is not None)
    """
    assert ran(program, tmp_path, everything=True) == "True True"


def test_images_are_as_long_as_sounds_may_be(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import Sounds

    print(torch.nn.ConvTranspose1d(80, 80, 1024, stride=256)(Sounds()[0]).numel() < 10**8)
    """
    assert ran(program, tmp_path) == "True"


def test_images_are_made_of_stand_ins(tmp_path: Path) -> None:
    program = """
    from absent import thing
    from PIL import Image

    print(Image.fromarray(thing.numpy()).size)
    """
    assert ran(program, tmp_path) == "(64, 64)"


def test_a_batch_has_as_many_items_as_are_taken(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import Frames

    for batch in torch.utils.data.DataLoader(Frames(), batch_size=4):
        first, second, flow, valid = [x.float() for x in batch]
        one, two, three = map(torch.Tensor.float, batch)
        batch = tuple(x.float() for x in batch)
        words, mask, kinds, labels, more = batch
    print(first.shape == second.shape, valid.shape, three.shape, len(batch))
    """
    assert ran(program, tmp_path) == "True torch.Size([4]) torch.Size([4]) 5"


def test_a_batch_has_lengths_where_a_program_names_them(tmp_path: Path) -> None:
    program = """
    import torch
    from absent import Captions
    from torch.nn.utils.rnn import pack_padded_sequence

    for i, (images, captions, lengths) in enumerate(torch.utils.data.DataLoader(Captions(), batch_size=4)):
        lengths, order = lengths.squeeze(1).sort(descending=True)
        data, _ = pack_padded_sequence(captions[order], (lengths - 1).tolist(), batch_first=True)
        packed = pack_padded_sequence(captions[order], (lengths - 1).tolist(), batch_first=True)
    for image, target, length in [Captions()[0]]:
        print(image.dim(), int(length) > 1)
    print(len(packed.data) == len(data) > 0, images.dim())
    """
    assert ran(program, tmp_path).splitlines() == ["3 True", "True 4"]


def test_a_batch_has_items(tmp_path: Path) -> None:
    program = """
    import torch
    from torchvision import datasets

    batch = next(iter(torch.utils.data.DataLoader(datasets.MNIST("data"), batch_size=4)))
    print(batch[0].shape, batch[1].squeeze(1).shape, batch[0] is batch[0])
    """
    assert ran(program, tmp_path) == "torch.Size([4, 1, 28, 28]) torch.Size([4]) True"


# The noise is of as many rows as the loader is asked for, and not of as many as a stand-in has.
ROWS = """
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64)
noise = torch.rand(64, 1, 1, 1).cuda()
for images, _ in loader:
    images.cuda() * noise{moved}
    torch.add(images{moved}, noise)
"""


@pytest.mark.parametrize(("moved", "outcome"), [("", Outcome.CONFIRMED), (".cuda()", Outcome.INCONCLUSIVE)])
def test_batches_are_full_where_a_program_counts_on_it(moved: str, outcome: Outcome, prober: Prober) -> None:
    call = f"torch.add(images{moved}, noise)"
    case = accused(ROWS.format(moved=moved), call, "torch.add(images.cuda(), noise)", kind=OnlySlices)
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is outcome, verdict.observed


LOADED_IN_RANKS = """
import argparse
import os
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
torch.distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), device_ids=[rank])
if args.resume and os.path.isfile(args.resume):
    checkpoint = torch.load(args.resume)
    net.load_state_dict(checkpoint["model"])
torch.save({"model": net.state_dict()}, "last.pt")
"""


def test_each_rank_loads_what_a_stand_in_holds(prober: Prober) -> None:
    verdict = verdict_of(LOADED_IN_RANKS, "DPL603", prober)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "it is loaded onto another rank's GPU; repaired: no error" in verdict.observed
    assert "torch.load" in verdict.observed


COUNTED = """
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

net = torch.nn.Linear(28, 2).cuda()
for i, (images, _) in enumerate(DataLoader(datasets.MNIST("data"), batch_size=64)):
    print(images.shape)
print(1 / i)
net(images{moved})
"""


@pytest.mark.parametrize(("moved", "outcome"), [("", Outcome.CONFIRMED), (".cuda()", Outcome.INCONCLUSIVE)])
def test_there_is_more_than_one_batch_where_a_program_counts_on_it(
    moved: str, outcome: Outcome, prober: Prober
) -> None:
    case = accused(COUNTED.format(moved=moved), f"net(images{moved})", "net(images.cuda())")
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is outcome, verdict.observed


ITEM = """
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = torch.nn.Linear(8, 4).to(device)
net.load_state_dict(torch.load("best.pt")["state"])
"""


def test_an_item_of_a_checkpoint_is_the_state_of_a_module(prober: Prober) -> None:
    case = OnlySlices(**vars(case_of(ITEM, "DPL603")))
    verdict, _ = Replayer(prober).replayed(case)
    assert verdict.outcome is Outcome.CONFIRMED, verdict.observed
    assert "repaired: no error" in verdict.observed

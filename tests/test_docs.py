"""The README and the documentation: snippets work as described, links have targets, and tables match the code."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from types import ModuleType

import click
import pytest
from test_formats import RUN
from test_pages import ODD_WORDS

from placement_lint import registry
from placement_lint.checking.checker import Checker, Job
from placement_lint.cli import commands
from placement_lint.cli.pages import first_sentence
from placement_lint.config.files import Projects
from placement_lint.config.settings import KEYS, Settings
from placement_lint.report.formats import FORMATS
from placement_lint.report.json import as_object

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
WRITTEN = [README, *sorted(DOCS.rglob("*.md"))]
LINKING = [*WRITTEN, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^ *```$', re.M | re.S
)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
CLAIM = re.compile(r"# (DPL\d{3})$")
# The time that a run took, and the widths of lines, which depend on it.
SECONDS = re.compile(r'in \d+\.\d s|textLength="[\d.]+"')
TOOL = "placement-lint"
by_page = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))


def loaded(name: str) -> ModuleType:
    """A script of ``docs/``."""
    spec = util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks, picture = loaded("hooks"), loaded("picture")


@dataclass(frozen=True)
class Snippet:
    language: str
    title: str
    text: str


def snippets(page: Path, *languages: str) -> list[Snippet]:
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    read = [
        Snippet(each["language"], each["title"] or "", _dedented(each["text"], len(each["indent"]))) for each in found
    ]
    return [snippet for snippet in read if not languages or snippet.language in languages]


def _dedented(text: str, width: int) -> str:
    return "".join(line[width:] if line[:width].isspace() else line for line in text.splitlines(keepends=True))


# --- snippets ----------------------------------------------------------------------------------------------


def claims(text: str) -> Counter[tuple[int, str]]:
    """The findings that comments at the ends of lines describe."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = ((token.start[0], CLAIM.search(token.string)) for token in tokens if token.type == tokenize.COMMENT)
    return Counter((line, claim[1]) for line, claim in comments if claim)


@by_page
def test_python_has_the_findings_that_it_claims(page: Path) -> None:
    """A snippet with a title is part of a program that the commands of its page check."""
    for snippet in snippets(page, "python"):
        if not snippet.title and not is_excerpt(snippet.text):
            findings = Checker(Job(Settings())).check_bytes(snippet.text.encode(), "snippet.py").findings
            assert Counter((finding.range.line, finding.code) for finding in findings) == claims(snippet.text)


def is_excerpt(text: str) -> bool:
    """Whether a text consists of lines of the example project."""
    program = (ROOT / "fixtures" / "example" / "train.py").read_text(encoding="utf-8")
    return text in picture.WANT.sub("", program)


def commands_in(page: Path) -> Iterator[str]:
    for snippet in snippets(page, "bash", "console", "yaml", ""):
        for line in snippet.text.splitlines():
            _, tool, rest = line.partition(f"{TOOL} ")
            before = line[: line.index(tool)].split() if tool else []
            if tool and (not before or before[-1] in {"$", "&&", ".", "run:", "entry:", "-"}):
                yield rest.partition("#")[0]


@by_page
def test_commands_are_understood(page: Path) -> None:
    for line in commands_in(page):
        words = shlex.split(re.sub(r"\$\{\{.*?\}\}", "1", line))
        if words[0] not in commands.commands:
            assert words[0].startswith(("check", "-", ".")), line  # `placement-lint .` is the name of an image
            continue
        context = click.Context(commands, info_name=TOOL)
        commands.commands[words[0]].make_context(words[0], words[1:], parent=context)


@by_page
def test_configurations_are_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for snippet in snippets(page, "toml"):
        if f"[tool.{TOOL}]" in snippet.text:
            (tmp_path / "pyproject.toml").write_text(snippet.text, encoding="utf-8")
            assert Projects(str(tmp_path / "pyproject.toml")).settings(tmp_path) != Settings()


@by_page
def test_data_is_well_formed(page: Path) -> None:
    yaml = pytest.importorskip("yaml")
    for snippet in snippets(page, "yaml"):
        assert yaml.safe_load(snippet.text)
    for snippet in snippets(page, "json"):
        assert json.loads(snippet.text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if snippets(page, "console")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if page == README:
        (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    for snippet in snippets(page, "python", "console"):
        if snippet.title:
            (tmp_path / snippet.title).write_text(snippet.text, encoding="utf-8")
        elif snippet.language == "console":
            for part in snippet.text.removeprefix("$ ").split("\n$ "):
                command, _, shown = part.partition("\n")
                printed = output(shlex.split(command), tmp_path)
                assert re.fullmatch(pattern(shown), squeezed(printed)), f"$ {command}\n{printed}"


def output(words: Sequence[str], folder: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / ".cache")}
    where = {TOOL: ["-m", "placement_lint"], "python": []}
    command = [sys.executable, *where[words[0]], *words[1:]]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


def squeezed(text: str) -> str:
    """Text without line breaks, which may differ on a page, and without durations."""
    return " ".join(SECONDS.sub("in N s", text).split())


def pattern(shown: str) -> str:
    """A regular expression for output on a page, in which `…` matches omitted text."""
    return r"\s*.*?\s*".join(re.escape(part.strip()) for part in squeezed(shown).split("…"))


# --- language ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_plain_words(page: Path) -> None:
    prose = " ".join(FENCE.sub("", page.read_text(encoding="utf-8")).split())
    assert [match[0] for match in ODD_WORDS.finditer(prose)] == []


# --- links -------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    generated = {DOCS / path: text for path, text in hooks.rule_pages().items()}
    for match in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in match["target"]:
            continue
        file, _, anchor = match["target"].partition("#")
        target = Path(os.path.normpath(page.parent / file)) if file else page
        assert target.exists() or target in generated, match["target"]
        if anchor:
            assert anchor in anchors(generated.get(target) or target.read_text(encoding="utf-8")), match["target"]


def test_the_contributors_guide_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    below = "placement_lint|flow|project|server|source|tests|rules"
    for name in re.findall(rf"`((?:{below})/[\w/]+(?:\.\w+)?)`", text):
        places = [ROOT / name, *((ROOT / "placement_lint" / f"{name}{suffix}") for suffix in ("", ".py"))]
        assert any(place.exists() for place in places), name


def test_generated_pages_link_to_pages() -> None:
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} | set(hooks.rule_pages())
    for path, text in hooks.rule_pages().items():
        for match in LINK.finditer(FENCE.sub("", text)):
            assert os.path.normpath(Path(path).parent / match["target"]) in there, (path, match["target"])


# --- the README --------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 10_000


def test_the_readme_names_the_families_of_rules() -> None:
    families = {registry.family_name(rule): 0 for rule in registry.all_rules()}
    prefixes = re.findall(r"^\| (DPL\d) (\w+) \|", README.read_text(encoding="utf-8"), re.M)
    own = {name: prefix for name, prefix in registry.FAMILIES.items() if name not in {"tool", "folklore"}}
    assert {name: prefix for prefix, name in prefixes} == own
    assert set(own) < set(families)


def test_ci_runs_the_readmes_test_command() -> None:
    (command,) = re.findall(r"^pip install -e '\.\[test\]' && pytest$", README.read_text(encoding="utf-8"), re.M)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_picture_is_what_the_command_prints() -> None:
    drawn, kept = picture.draw(), picture.PICTURE.read_text(encoding="utf-8")
    assert SECONDS.sub("", drawn) == SECONDS.sub("", kept), "python docs/picture.py"


# --- generated content -------------------------------------------------------------------------------------


def test_there_is_a_page_for_every_rule() -> None:
    pages = hooks.rule_pages()
    for rule in hooks.own_rules():
        assert first_sentence(rule.page.what) in " ".join(pages[f"rules/{rule.name}.md"].split())
        assert f"| {rule.code} | [{rule.name}]({rule.name}.md) |" in pages["rules/index.md"]


def test_every_marker_is_filled() -> None:
    marked = [name for page in DOCS.rglob("*.md") for name in re.findall(r"<!-- (\w+) -->", page.read_text("utf-8"))]
    assert sorted(marked) == sorted(hooks.TABLES)


def test_the_reference_has_every_key_format_and_option() -> None:
    assert all(f"| `{key}` |" in hooks.keys_table() for key in ("extend", *KEYS))
    assert all(f"| `{form}` |" in hooks.formats_table() for form in FORMATS)
    reference = hooks.commands_reference()
    assert all(f"## placement-lint {name}\n" in reference for name in commands.commands)
    assert "--unsafe-fixes" in reference
    assert [match[0] for match in ODD_WORDS.finditer(f"{reference} {hooks.keys_table()} {hooks.formats_table()}")] == []


def test_the_json_reference_has_every_field() -> None:
    text = (DOCS / "reference" / "formats.md").read_text(encoding="utf-8")
    report = as_object(RUN)
    finding = next(each for each in report["findings"] if each["fix"])
    verdict = next(each["verdict"] for each in report["findings"] if each["verdict"])
    for names in (report["summary"], finding, finding["trace"][0], finding["fix"], verdict):
        assert [name for name in names if not re.search(rf"`[\w.\[\]]*\b{name}`", text)] == []


def test_the_outcome_of_every_experiment_is_recorded() -> None:
    expected = {rule.code: rule.experiment.expects.value for rule in hooks.own_rules() if rule.experiment}
    assert {code: row["outcome"] for code, row in hooks.experiments().items()} == expected


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    for rule in hooks.own_rules():
        assert (tmp_path / "site" / "rules" / rule.name / "index.html").exists()

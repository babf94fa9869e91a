"""The pinned packages: found on pip's index, downloaded and unpacked; none of their code runs."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import urldefrag, urljoin

from packaging.utils import canonicalize_name

LIST = Path(__file__).with_name("packages.txt")
SUFFIXES = (".py", ".ipynb")


@dataclass(frozen=True)
class Package:
    """One line of the list: ``file`` is the archive's name on the index, a wheel or a source distribution."""

    name: str
    version: str
    file: str


def read_packages() -> list[Package]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [Package(*line.split()) for line in lines if line and not line.startswith("#")]


def unpacked(package: Package, folder: Path) -> Path:
    """The folder with the package's Python files, fetched unless it is there already."""
    root = folder / f"{package.name}-{package.version}"
    if not root.exists():
        partial = root.with_name(f".{root.name}")
        shutil.rmtree(partial, ignore_errors=True)
        for name, data in _members(package.file, _fetched(package)):
            target = partial.joinpath(*name.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        partial.rename(root)
    return root


def lines_of_code(root: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in root.rglob("*.py"))


def _fetched(package: Package) -> bytes:
    project = f"{_index().rstrip('/')}/{canonicalize_name(package.name)}/"
    links = _Links()
    with urllib.request.urlopen(urllib.request.Request(project, headers={"Accept": "text/html"})) as page:
        links.feed(page.read().decode())
    for link in links.found:
        address = urldefrag(urljoin(project, link)).url
        if address.endswith(f"/{package.file}"):
            with urllib.request.urlopen(address) as archive:
                return bytes(archive.read())
    raise LookupError(f"the index has no {package.file}")


class _Links(HTMLParser):
    """The targets of a page's links: an index lists a project's files as links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.extend(value for name, value in attrs if tag == "a" and name == "href" and value)


def _index() -> str:
    """The package index from pip's configuration, or else pip's default."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    from pip._internal.models.index import PyPI

    return configured or str(PyPI.simple_url)


def _members(file: str, data: bytes) -> Iterator[tuple[PurePosixPath, bytes]]:
    """The Python files of an archive, with their paths in the project, without a source distribution's top folder."""
    if file.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            yield from ((PurePosixPath(name), wheel.read(name)) for name in wheel.namelist() if _wanted(name))
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                content = archive.extractfile(member) if _wanted(member.name) else None
                if content is not None:
                    yield PurePosixPath(*PurePosixPath(member.name).parts[1:]), content.read()


def _wanted(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in SUFFIXES and not path.is_absolute() and ".." not in path.parts

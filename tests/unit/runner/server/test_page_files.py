"""The page's files: nothing from elsewhere, nothing that parses text as HTML, nothing too large for a reader."""

import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[4] / "runner" / "server" / "page" / "static"
FILES = sorted(STATIC.iterdir())
FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "DOMParser",
    "srcdoc",
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_asks_for_nothing_elsewhere_and_has_nothing_inline(path: Path) -> None:
    source = path.read_text()
    addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+[^\s\"']*", source))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    if path.suffix == ".html":
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*\ssrc=)", source)
    if path.suffix == ".js":
        assert not [word for word in FORBIDDEN if word in source]
        assert 'setAttribute("style"' not in source
    assert len(source.splitlines()) <= 400


def test_every_module_that_is_imported_is_there() -> None:
    names = {path.name for path in FILES}
    for path in FILES:
        wanted = re.findall(r"(?:from \"\./|(?:src|href)=\"/page/)([^\"]+)\"", path.read_text())
        assert set(wanted) <= names, path.name

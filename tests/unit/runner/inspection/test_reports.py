"""The three reports: complete, safe, and streamed."""

import base64
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from checkpoint.session.decoding import parse
from runner.inspection.errors import SourceFailed
from runner.inspection.showing import Format, report_pieces
from runner.inspection.source import open_source
from tests.unit.runner.inspection.stored import (
    CORPUS,
    NOWHERE,
    TIME,
    Shelf,
    assistant,
    call,
    point,
    result,
    session_bytes,
    user,
)

VOID = frozenset({"meta", "img"})
HOSTILE = "<script>alert(1)</script>\x1b]0;x\x07\u202e</pre></article><img src=x onerror=alert(1)>\x00\ud800"


def report(address: str, form: Any, *, full: bool = False, on_damage: Any = "fail") -> str:
    with open_source(address, NOWHERE, on_damage=on_damage) as source:
        return "".join(report_pieces(source, form, full=full))


def written(tmp_path: Path, *messages: dict[str, Any]) -> str:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session_bytes(*messages))
    return str(path)


class Elements(HTMLParser):
    """Every element, and whether what is opened is closed again."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    @staticmethod
    def of(text: str) -> "Elements":
        elements = Elements()
        elements.feed(text)
        elements.close()
        assert elements.opened == []
        return elements


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*-1.jsonl")), ids=lambda path: path.stem)
def test_every_recorded_session_is_reported_in_every_format(path: Path) -> None:
    try:
        text = report(str(path), "text", on_damage="skip")
    except SourceFailed:
        return  # no session at all: test_source has these
    value = parse(report(str(path), "json", on_damage="skip"))
    assert text.count("\n--- ") == len(value["entries"]) == len(value["tree"]) == value["session"]["entries"]
    elements = Elements.of(report(str(path), "html", on_damage="skip"))
    assert sum(tag == "article" for tag, _ in elements.found) == len(value["entries"])
    anchors = {attributes.get("id") for _, attributes in elements.found}
    links = {str(attributes["href"])[1:] for tag, attributes in elements.found if tag == "a"}
    assert links <= anchors


def test_hostile_content_is_text_in_every_format(tmp_path: Path) -> None:
    address = written(
        tmp_path,
        user(HOSTILE),
        assistant(HOSTILE, call(HOSTILE, HOSTILE, x=HOSTILE), model=HOSTILE, errorMessage=HOSTILE),
        result(HOSTILE, HOSTILE, HOSTILE, details={HOSTILE: HOSTILE}),
        {"role": HOSTILE, "content": HOSTILE},
        user("") | {"content": [{"type": HOSTILE}, {"type": "image", "mimeType": HOSTILE, "data": HOSTILE}]},
    )
    text, page, value = (report(address, form) for form in ("text", "html", "json"))
    for shown in (text, page):
        assert not any(bad in shown for bad in "\x1b\x07\x00\u202e\ud800")
        assert "␛]0;x␇⟦U+202E⟧" in shown
    assert value.isascii()
    elements = Elements.of(page)
    assert not {tag for tag, _ in elements.found} & {"script", "img", "iframe", "object", "link", "form"}
    assert not any(name.startswith("on") or name == "style" for _, attributes in elements.found for name in attributes)


def test_the_page_has_a_policy_landmarks_and_names_for_everything(tmp_path: Path) -> None:
    page = report(written(tmp_path, user("go"), assistant("", call("bash", "c1")), result("c1", "ok")), "html")
    found = Elements.of(page).found
    policy = next(attributes["content"] for _, attributes in found if attributes.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in policy
    assert "unsafe" not in policy
    tags = [tag for tag, _ in found]
    assert [tags.count(tag) for tag in ("html", "title", "h1", "nav", "main", "header")] == [1] * 6
    assert found[0][1]["lang"] == "en"
    assert all(attributes.get("aria-labelledby") for tag, attributes in found if tag in ("section", "article"))
    bar = next(attributes for tag, attributes in found if tag == "svg")
    assert bar["aria-label"] == "model 1.0 s, then bash 1.0 s"
    assert not any("://" in (value or "") for _, attributes in found for value in attributes.values())


def test_right_to_left_text_keeps_to_its_own_place(tmp_path: Path) -> None:
    page = report(written(tmp_path, user("שלום")), "html")
    assert '<pre class="plain" dir="auto">שלום</pre>' in page


@pytest.mark.parametrize(
    ("mime_type", "data", "shown"),
    [
        ("image/png", base64.b64encode(b"x").decode(), True),
        ("IMAGE/JPEG", "AAAA", True),
        ("image/svg+xml", "AAAA", False),
        ("text/html", "AAAA", False),
        ('image/png" onload="x', "AAAA", False),
        ("image/png", 'AA"onload=x', False),
        ("image/png", "", False),
    ],
)
def test_only_safe_images_become_images(tmp_path: Path, mime_type: str, data: str, shown: bool) -> None:
    image = {"role": "user", "content": [{"type": "image", "mimeType": mime_type, "data": data}]}
    found = Elements.of(report(written(tmp_path, image), "html")).found
    assert [tag for tag, _ in found if tag == "img"] == (["img"] if shown else [])


def test_long_texts_are_folded_and_shown_whole_on_request(tmp_path: Path) -> None:
    address = written(tmp_path, user("\n".join(f"line {n}" for n in range(100))), user("x" * 300_000))
    text, whole = report(address, "text"), report(address, "text", full=True)
    assert "line 19" in text
    assert "line 20" not in text
    assert "more characters (--full shows them)" in text
    assert "line 99" in whole
    assert "x" * 300_000 in whole
    page, full_page = report(address, "html"), report(address, "html", full=True)
    assert page.count("<details>") == full_page.count("<details>") == 2
    assert "100,000 more characters left out" in page
    assert "x" * 300_000 in full_page


def test_a_head_is_reported_with_its_claim_settlement_and_checkpoint(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    uploaded = shelf.checkpoint(session_bytes(user("go"), assistant("done")), files={})
    settlement = {"kind": "failure", "reason": "turn_limit", "message": "Too many turns."}
    address = shelf.head(restore=None, terminal=({"settlement": settlement, "warnings": ["w1"]}, uploaded))
    value = parse(report(address, "json"))
    assert value["head"]["state"] == "terminal"
    assert value["head"]["claim_id"] == "c1"
    assert value["terminal"]["settlement"] == settlement
    assert value["checkpoint"]["entries"] == 2
    assert value["source"]["restore_point"] == {"manifest": uploaded.key, "digest": uploaded.digest}
    assert value["usage"]["total"]["cost_usd"] == 0.5
    for form in ("text", "html"):
        shown = report(address, form)
        assert "failure (turn_limit): Too many turns." in shown
        assert "attempt 1, claim c1, revision 2" in shown


def test_a_head_without_a_session_is_reported_too(tmp_path: Path) -> None:
    address = Shelf(tmp_path).head()
    assert "nothing yet: no session is stored" in report(address, "text")
    assert parse(report(address, "json"))["session"] is None
    Elements.of(report(address, "html"))


def test_transcripts_of_subagents_are_part_of_every_report(tmp_path: Path) -> None:
    shelf, sub = Shelf(tmp_path), tmp_path / "sub.jsonl"
    sub.write_bytes(session_bytes(user("look into it"), assistant("found")))
    address = shelf.path(shelf.checkpoint(session_bytes(user("go")), files={"subagent-1.jsonl": sub}).key)
    assert "######## Transcript subagent-1.jsonl" in report(address, "text")
    value = parse(report(address, "json"))
    assert [len(entries) for entries in value["file_entries"].values()] == [2]
    assert value["files"][0]["usage"]["total"]["cost_usd"] == 0.5
    assert "Transcript of subagent-1.jsonl" in report(address, "html")


def test_damage_is_listed_in_every_format(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    base = session_bytes(user("go"), user("on"), user("and on")).splitlines(keepends=True)
    uploaded = shelf.segments(base[0] + base[1], base[2], base[3], pipeline="p2")
    key = uploaded.manifest.segments[1].key
    shelf.spoil(key, None)
    place = shelf.store.address(key)
    address = shelf.head(restore=point(uploaded))
    assert parse(report(address, "json", on_damage="skip"))["damage"] == [{"place": place, "what": "it does not exist"}]
    assert f"- {place}: it does not exist" in report(address, "text", on_damage="skip")
    assert f"{place}: it does not exist" in report(address, "html", on_damage="skip")


def test_a_large_session_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    line = session_bytes(user("x" * 1_000_000)).splitlines(keepends=True)[1]
    with path.open("wb") as file:
        file.write(b'{"type":"session","version":3,"id":"s","timestamp":"%s","cwd":"/"}\n' % TIME.encode())
        for number in range(1, 31):
            file.write(
                line.replace(b'"00000001"', b'"%08x"' % number).replace(b": null", b': "%08x"' % (number - 1), 1)
            )
    with open_source(str(path), NOWHERE) as source:
        forms: tuple[Format, ...] = ("text", "json", "html")
        for form in forms:
            tracemalloc.start()
            for _ in report_pieces(source, form, full=True):
                pass
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 12_000_000, (form, peak)

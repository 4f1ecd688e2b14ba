"""Sessions that the real Pi wrote, and damaged ones: each is the same again, or the answer says where and why not."""

from pathlib import Path

import pytest

from runner.errors import RunnerError
from runner.inspection.source import StoreOptions
from runner.replay.command import ReplayOptions, replay_source
from runner.replay.report import Report, report_json, report_text

CORPUS = Path(__file__).parents[3] / "corpus" / "session"
SESSIONS = sorted(path.stem for path in CORPUS.glob("*.jsonl"))
NOT_MADE_BY_RUNS = [
    "branch-moves-1",
    "lone-surrogates-1",
    "lone-surrogates-2",
    "null-content-1",
    "null-content-2",
    "orphan-tool-result-1",
    "orphan-tool-result-2",
    "tool-images-1",
    "tool-images-2",
    "unicode-1",
    "unicode-2",
    "unknown-parent-1",
    "unknown-parent-2",
    "length-stop-2",
]
"""Appended by hand through Pi's store: an answer straight after a finished one, results of no call, another text for
calls that were cut off."""
UNANSWERED = [
    "compaction-edge-1",
    "compaction-edge-2",
    "context-edit-1",
    "context-edit-2",
    "context-edit-compaction-1",
    "context-edit-compaction-2",
    "dangling-tool-calls-1",
    "dangling-tool-calls-2",
    "fork-parent-1",
    "harness-plain-1",
    "harness-retained-tail-1",
    "model-thinking-2",
    "settings-on-branch-1",
    "settings-on-branch-2",
    "system-messages-1",
    "system-messages-2",
    "torn-last-line-1",
    "torn-last-line-2",
    "usage-entries-2",
    "user-only-1",
    "user-only-2",
]
"""The recording ends before the model's answer, or before a tool's result."""


def replayed(source: Path, folder: Path, **options: object) -> Report | RunnerError:
    store = StoreOptions(folder, {})
    try:
        return replay_source(ReplayOptions(source=str(source), store=store, **options))  # pyright: ignore[reportArgumentType]
    except RunnerError as error:
        return error


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_session_is_replayed_or_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    report = replayed(CORPUS / f"{name}.jsonl", tmp_path)

    if isinstance(report, RunnerError):
        assert report.exit_code == 78
        assert "read before it" in report.message
        assert '"damaged": false' not in (CORPUS / f"{name}.expected.json").read_text()
        return
    report_json(report)
    assert report_text(report).endswith("same\n" if report.same else "different\n")
    divergence = report.replayed.divergence
    if divergence is None:
        assert report.same
        assert name not in NOT_MADE_BY_RUNS + UNANSWERED
    elif name in UNANSWERED:
        assert divergence.cause == "unanswered"
        assert report.entry_id(divergence.position) is not None
    else:
        assert name in NOT_MADE_BY_RUNS
        assert divergence.what


@pytest.mark.parametrize("name", SESSIONS)
def test_lenient_reading_replays_or_refuses_too(name: str, tmp_path: Path) -> None:
    report = replayed(CORPUS / f"{name}.jsonl", tmp_path, on_damage="skip")

    if isinstance(report, Report):
        report_text(report)
        report_json(report)

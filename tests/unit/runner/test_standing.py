"""Where a process stands is there to be read while it runs."""

from pathlib import Path

import pytest

from runner.standing import Standing, StandingUsage
from runner.usage import UsageTotals
from tests.fakes.pipeline_parts import Backstage

pytestmark = pytest.mark.anyio


async def test_the_phase_follows_the_pipeline_from_claim_to_callback(tmp_path: Path) -> None:
    stage = Backstage(tmp_path)
    seen: list[str] = []

    def look(*_call: object) -> None:
        phase = stage.parts.standing.phase if stage.parts is not None else "?"
        if not seen or seen[-1] != phase:
            seen.append(phase)

    stage.store.before = look
    stage.before_request = look
    stage.courier.on_delivery = look

    await stage.run()

    assert seen == ["claim", "agent", "upload", "commit", "callback"], "a new session has nothing to restore"
    assert stage.parts is not None
    assert stage.parts.standing.turn == 1
    assert stage.parts.standing.usage.requests == 1


def test_a_reader_gets_what_was_counted_at_one_moment() -> None:
    standing, totals = Standing(), UsageTotals(total_tokens=5, cost_usd=0.5, requests=1, turns=1)
    standing.count(totals)
    read = standing.usage
    totals.total_tokens += 5

    assert read == StandingUsage(5, 0.5, 1)
    assert standing.turn == 1

"""A short soak with a fixed seed; `make soak` is the long one."""

from pathlib import Path

import pytest

from tests.faults.soak import Seen, soak
from tests.servers import S3Server

SEED, PIPELINES, TURNS = 7, 12, 20


@pytest.mark.seaweedfs
@pytest.mark.timeout(400)
def test_nothing_is_lost_and_nothing_is_there_twice_whatever_happens(seaweed_server: S3Server, tmp_path: Path) -> None:
    seen = soak(SEED, PIPELINES, TURNS, tmp_path / "pipelines", seaweed_server)

    assert list(seen.problems()) == [], seen.summary()
    assert sum(seen.ends.values()) == PIPELINES
    assert sum(seen.faults.values()) > 0, "calls were answered wrongly"


def test_a_growing_process_and_a_failed_pipeline_are_told() -> None:
    seen = Seen(1, failed={"p1": "lost"}, runner_mb=1000, runner_files=1000, own_mb=[10, 100], own_files=[10, 100])

    told = list(seen.problems())

    assert len(told) == 5
    assert told[0] == "p1: lost"
    assert Seen(1, own_mb=[10, 11], own_files=[10, 11]).failed == {}
    assert list(Seen(1, own_mb=[10, 11], own_files=[10, 11]).problems()) == []

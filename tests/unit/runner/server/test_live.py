"""A reader of events comes back without a gap, and sees what a process said before it sees its end."""

import asyncio
import json
from pathlib import Path

from runner.server.live import Cursor, cursor_now, follow, live_messages, parse_cursor
from runner.server.people import NewTask, start_task
from runner.server.rows import Rows
from runner.server.service import Service
from runner.server.taking import Moment, say
from tests.unit.runner.server.application import a_service

MOMENT = Moment(0.0, lambda: "p1")
SAID = [
    {"type": "agent_start"},
    {"type": "message_end", "message": {"role": "user", "content": "Deploy."}},
    {"type": "settled", "exit": 0},
]


def told(service: Service, cursor: Cursor, count: int) -> list[tuple[Cursor, str]]:
    """The next events behind the cursor."""

    async def read() -> list[tuple[Cursor, str]]:
        found: list[tuple[Cursor, str]] = []
        following = follow(service.database, service.changes, service.folder, "s1", cursor)
        async with asyncio.timeout(20):
            async for event in following:
                assert event is not None
                found.append(event[:2])
                if len(found) == count:
                    break
        return found

    return asyncio.run(read())


def a_story(service: Service) -> None:
    """A task was started, its process said something, and has ended."""

    def happen(rows: Rows) -> None:
        start_task(rows, "Deploy.", NewTask("s1", "t1"), None, "local:me", MOMENT)
        rows.mark_launched("p1", 1, 0.0)
        say(rows, "s1", "pipeline", MOMENT, pipeline_id="p1", standing="launched", attempt=1)
        say(rows, "s1", "card", MOMENT, question_id="q1", standing="open")
        say(rows, "s1", "pipeline", MOMENT, pipeline_id="p1", standing="ended", attempt=1)

    service.database.submit(happen).result(10)
    path = service.folder.events("p1", 1)
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in SAID) + '{"type": "torn')


def test_what_a_process_says_comes_between_its_start_and_its_end(tmp_path: Path) -> None:
    with a_service(tmp_path) as service:
        a_story(service)
        kinds = [kind for _, kind in told(service, Cursor(0), 7)]
        assert kinds == ["task", "pipeline", "pipeline", "card", "agent", "agent", "pipeline"]


def test_a_reader_goes_on_where_it_left(tmp_path: Path) -> None:
    with a_service(tmp_path) as service:
        a_story(service)
        whole = told(service, Cursor(0), 7)
        for number, (cursor, _) in enumerate(whole[:-1], start=1):
            again = parse_cursor(str(cursor))
            assert again is not None
            assert again == cursor
            rest = told(service, again, 7 - number)
            assert sorted(kind for _, kind in rest) == sorted(kind for _, kind in whole[number:])
            assert rest[-1] == whole[-1]


def test_the_whole_messages_of_a_running_process_are_shown(tmp_path: Path) -> None:
    with a_service(tmp_path) as service:
        a_story(service)
        cursor = service.database.read_now(lambda rows: cursor_now(rows, "s1"))
        messages, after = live_messages(service.folder, cursor)
        assert messages == [{"role": "user", "content": "Deploy."}]
        assert live_messages(service.folder, after)[0] == []


def test_only_cursors_are_cursors() -> None:
    assert parse_cursor("3~") == Cursor(3)
    assert parse_cursor("3~p1.2~40") == Cursor(3, "p1.2", 40)
    for text in ("", "3", "~", "3~p1~4", "3~../x.1~4", "3~p1.1~-4", "3~p1.1~4\n", "³~"):
        assert parse_cursor(text) is None

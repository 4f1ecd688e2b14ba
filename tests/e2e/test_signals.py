"""Stopping a process: wherever the signal meets it, it ends within its grace and says how."""

import fcntl
import os
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.scene import OWN_TOOLS, Json, Scene, ask, at_once, call, calls, messages, text, texts
from tests.fakes.callback_server import Answer, CallbackServer

GRACE_S = 3
EXIT_S = 3
"""What a process may take beyond its grace: the last line, and a busy machine."""
LIMITS = {"limits": {"grace_s": GRACE_S}}
FIRST_HALF = {"type": "text", "text": "The first half", "deltas": ["The first", " half"]}
SLOW = {"content": [FIRST_HALF, {"type": "text", "text": "never said", "delay_ms": 60_000}]}


@contextmanager
def locked(store: Path) -> Generator[None]:
    """The file store's locks are held, as by a process that was stopped at a bad moment."""
    folder = store / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    files = [os.open(folder / f"{stripe:02x}", os.O_RDWR | os.O_CREAT, 0o600) for stripe in range(64)]
    try:
        for file in files:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        for file in files:
            os.close(file)


@contextmanager
def silent_endpoint() -> Generator[str]:
    """An address that takes connections and requests, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    kept.append(listening.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for one in kept:
                one.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_an_answer_settles_as_cancelled_and_keeps_the_part_that_had_come(
    number: signal.Signals, scene: Scene, server: CallbackServer
) -> None:
    process = scene.start(scene.spec([SLOW], **LIMITS), "--events")
    process.wait_for(lambda line: line.get("assistantMessageEvent", {}).get("delta") == " half")

    process.signal(number)
    run = process.finish()

    assert run.exit == 0
    assert run.seconds < GRACE_S + EXIT_S
    assert run.settlement["reason"] == "cancelled"
    assert run.settlement["resumable"]
    assert run.checkpoint["decision"] == "commit"
    (answer,) = messages(scene.entries(run.terminal), "assistant")
    assert answer["stopReason"] == "aborted"
    assert texts(answer) == "The first half"
    assert run.terminal["input_consumed"]
    assert len(server.committed) == 1


def test_a_signal_during_a_tool_ends_it_and_keeps_its_result(local_scene: Scene) -> None:
    process = local_scene.start(local_scene.spec([calls(call("wait"))], agent=OWN_TOOLS, **LIMITS), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")

    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.exit == 0
    assert run.seconds < GRACE_S + EXIT_S
    assert run.settlement["reason"] == "cancelled"
    (result,) = messages(local_scene.entries(run.terminal), "toolResult")
    assert result["isError"]


def test_a_question_that_was_sent_before_the_signal_is_still_reported(scene: Scene, server: CallbackServer) -> None:
    both = calls(ask("call_1"), call("wait", "call_2"))
    process = scene.start(scene.spec([both], agent=OWN_TOOLS, limits={"grace_s": 10}), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_end" and line["toolCallId"] == "call_1")

    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.exit == 0
    assert run.settlement["kind"] == "ask_user", "its turn was completed"
    assert [question["question_id"] for question in run.terminal["questions"]] == [server.cards[0].question_id]


def test_a_tool_that_ignores_even_being_cancelled_leaves_time_to_settle(local_scene: Scene) -> None:
    process = local_scene.start(local_scene.spec([calls(call("deaf"))], agent=OWN_TOOLS, **LIMITS), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")

    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.exit == 0
    assert run.seconds < GRACE_S + EXIT_S
    assert run.settlement["reason"] == "cancelled"
    assert run.checkpoint["decision"] == "commit"


@pytest.mark.parametrize("stopped_by", ["a signal", "the deadline"])
def test_a_tool_that_blocks_the_process_cannot_keep_it_beyond_its_grace(stopped_by: str, local_scene: Scene) -> None:
    limits = {"grace_s": GRACE_S, "deadline_s": GRACE_S + 2 if stopped_by == "the deadline" else 600}
    process = local_scene.start(local_scene.spec([calls(call("block"))], agent=OWN_TOOLS, limits=limits), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")

    if stopped_by == "a signal":
        process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.exit == 143
    assert run.seconds < 2 + GRACE_S + EXIT_S
    assert run.error["reason"] == "stopped_before_commit"
    assert local_scene.head()["state"] == "claimed", "left for a takeover"


def test_a_tool_that_ignores_the_signal_is_cut_off_and_a_second_signal_does_not_wait_for_it(local_scene: Scene) -> None:
    spec = local_scene.spec([calls(call("stubborn"))], agent=OWN_TOOLS, limits={"grace_s": 60})
    patient = local_scene.at("patient")
    once = {**patient.spec([calls(call("stubborn"))], agent=OWN_TOOLS), "limits": {"grace_s": 5}}
    processes = [local_scene.start(spec, "--events"), patient.start(once, "--events")]
    for process in processes:
        process.wait_for(lambda line: line["type"] == "tool_execution_start")

    for process in processes:
        process.signal(signal.SIGTERM)
    processes[0].signal(signal.SIGINT)  # another one: two of a kind may be merged on their way
    twice, cut_off = (process.finish() for process in processes)

    for run in (twice, cut_off):
        assert run.exit == 0
        assert run.settlement["reason"] == "cancelled"
    assert twice.seconds < 10, "the agent's share of the grace is 12 s"
    assert cut_off.seconds < 5 + EXIT_S


def test_a_signal_while_the_callback_hangs_ends_within_the_grace_and_leaves_the_record(
    scene: Scene, server: CallbackServer
) -> None:
    server.answer_terminals_with([Answer(hang=True)] * 10)
    process = scene.start(scene.spec([text("Done.")], **LIMITS))
    server.wait_for_terminals(1, timeout_s=60)

    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.exit == 77
    assert run.seconds < GRACE_S + EXIT_S
    assert run.error["reason"] == "unacknowledged"
    assert run.settlement["kind"] == "success"
    assert scene.head()["state"] == "terminal"


def test_a_signal_before_the_claim_is_exit_143_and_changes_nothing(local_scene: Scene) -> None:
    """While the spec is read from a pipe that nobody ends, and while the store does not let itself be claimed."""
    reading, locked_out, unanswered = (local_scene.at(name) for name in ("reading", "locked", "unanswered"))
    unanswered.environ = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-access-key"}
    spec = text("never said")
    from_pipe, into_pipe = os.pipe()
    with locked(locked_out.store), silent_endpoint() as endpoint, os.fdopen(into_pipe, "wb", buffering=0) as pipe:
        store = {"uri": "s3://bucket/prefix", "endpoint_url": endpoint}
        processes = [
            locked_out.start(locked_out.spec([spec], **LIMITS)),
            unanswered.start(unanswered.spec([spec], store=store, **LIMITS)),
            reading.start(None, "-", stdin=from_pipe),
        ]
        os.close(from_pipe)
        pipe.write(b'{"version": 1, ')
        for process in processes[:2]:
            process.wait_for_log("claiming")
        for process in processes:
            until_reading(processes[2].process.pid)
            process.signal(signal.SIGTERM)
        runs = [process.finish() for process in processes]

    for run in runs:
        assert run.exit == 143
        assert run.error["reason"] == "stopped_before_commit"
        assert "SIGTERM" in run.error["message"]
        assert "launch" in run.error["message"]
        assert run.settled["terminal"] is None
        assert run.seconds < GRACE_S + EXIT_S
    assert not (locked_out.store / "pipelines" / "p1" / "head.json").exists()


def until_reading(pid: int) -> None:
    """Return once the process has taken everything out of its standard input."""
    import time

    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        if "pipe_read" in Path(f"/proc/{pid}/wchan").read_text() or blocked_in_read(pid):
            return
        time.sleep(0.02)  # nothing tells when another process begins to wait
    raise AssertionError("the process does not read")


def blocked_in_read(pid: int) -> bool:
    """`/proc/<pid>/syscall` begins with the call's number and its first argument: read (0) of descriptor 0."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/syscall").read_text().split()[:2] == ["0", "0x0"]
    return False


def test_a_signal_while_the_store_hangs_ends_within_the_grace_without_a_commit(local_scene: Scene) -> None:
    process = local_scene.start(local_scene.spec([SLOW], **LIMITS), "--events")
    process.wait_for(lambda line: line["type"] == "message_update")

    with locked(local_scene.store):
        process.signal(signal.SIGTERM)
        run = process.finish()

    assert run.exit == 143
    assert run.seconds < GRACE_S + EXIT_S
    assert "relaunch with a higher attempt" in run.error["message"]
    assert local_scene.head()["state"] == "claimed"
    kept = next(log["folder"] for log in run.logs if log["event"] == "session_log_kept")
    assert "The first half" in (Path(kept) / "session.jsonl").read_text()

    again = local_scene.run(local_scene.spec([text("Done.")], attempt=2))

    assert again.settlement["text"] == "Done."


# --- readers ------------------------------------------------------------------------------------------------


def chatty(scene: Scene) -> Json:
    """More events than a pipe holds."""
    words = "x" * 4000
    return scene.spec([{"content": [{"type": "text", "text": words * 50, "deltas": [words] * 50}]}])


def test_a_reader_that_never_reads_hangs_neither_the_run_nor_the_callback(scene: Scene, server: CallbackServer) -> None:
    out_reader, out = os.pipe()
    log_reader, log = full_pipe()
    process = scene.start(chatty(scene), "--events", stdout=out, stderr=log)
    os.close(out)
    os.close(log)

    server.wait_for_terminals(1, timeout_s=60)
    os.close(out_reader)  # instead of the ten seconds that the last line waits
    run = process.finish()
    os.close(log_reader)

    assert run.exit == 0
    assert scene.head()["state"] == "acknowledged"


def full_pipe() -> tuple[int, int]:
    """(read end, write end) of a pipe that takes nothing more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.set_blocking(writer, True)
    return reader, writer


def test_closed_standard_streams_change_nothing_about_the_run(local_scene: Scene) -> None:
    def broken_pipe() -> int:
        reader, writer = os.pipe()
        os.close(reader)
        return writer

    def close_all() -> None:
        for descriptor in (0, 1, 2):
            os.close(descriptor)

    left, closed = local_scene.at("left"), local_scene.at("closed")
    runs = at_once(
        [
            lambda: left.run(chatty(left), "--events", stdout=broken_pipe(), stderr=broken_pipe()),
            lambda: closed.run(chatty(closed), "--events", stdout=None, stderr=None, preexec_fn=close_all),
        ]
    )

    assert [run.exit for run in runs] == [0, 0]
    for scene in (left, closed):
        assert scene.head()["state"] == "terminal"
        terminal = scene.head()["terminal"]
        assert '"kind":"success"' in terminal["body"]

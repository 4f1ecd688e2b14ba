"""`run_agent_until_settled` with the real agent, gate, adapter and policy; model, log and server are
fakes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
from msgspec.structs import replace

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import AgentEvent, AgentTool, MessageEnd, ToolResult, TurnEnd, UpdateCallback, text_result
from runner.interruption import InterruptionAdapter
from runner.question_gate import Ask, Asker, NotAsked, QuestionGate
from runner.settled import RunParts, Start, StartByContinuing, StartWithPrompt, run_agent_until_settled
from runner.stop import RequestReason, StopPolicy
from runner.tools.ask_user import asking_tools
from settlement.outcome import ModelFailure, Outcome, Stop, Undelivered
from settlement.settle import AskUser, Failure, Success, settle
from tests.fakes.answers import Answers, Hang, answer, call
from tests.fakes.questions import FakeQuestionSender

pytestmark = pytest.mark.anyio

BOUND_S = 10


def user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}


@dataclass
class FakeLog:
    """A log in memory that breaks, for good, at the message which `refuses` picks."""

    refuses: Callable[[Message], bool] = lambda _message: False
    messages: list[Message] = field(default_factory=list[Message])
    broken: str | None = None

    @property
    def entries(self) -> int:
        return len(self.messages)

    @property
    def last_assistant_entry_id(self) -> str | None:
        ids = [f"e{n}" for n, message in enumerate(self.messages) if message["role"] == "assistant"]
        return ids[-1] if ids else None

    def persist(self, event: AgentEvent, _signal: AbortSignal | None) -> None:
        if not isinstance(event, MessageEnd):
            return
        if self.broken is not None or self.refuses(event.message):
            self.broken = "No space left on device"
            raise OSError(self.broken)
        self.messages.append(event.message)


class Requests:
    """Stop requests, as signals and the control channel make them."""

    def __init__(self) -> None:
        self.reason: RequestReason | None = None
        self._abort = asyncio.Event()
        self._urgent = asyncio.Event()

    def request(self, reason: RequestReason) -> None:
        self.reason = reason
        if reason != "paused":
            self._abort.set()

    def hurry(self) -> None:
        self._urgent.set()

    async def wait_abort(self) -> None:
        await self._abort.wait()

    async def wait_urgent(self) -> None:
        await self._urgent.wait()


@dataclass
class Counters:
    turns: int = 0
    total_tokens: int = 0
    cost_usd: float = 0.0


@dataclass
class Limits:
    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_cost_usd: float | None = None


class Scene:
    def __init__(
        self,
        *answers: Message | Hang | Exception,
        tools: tuple[AgentTool, ...] = (),
        ask_tools: tuple[str, ...] = (),
        sender: FakeQuestionSender | None = None,
        log: FakeLog | None = None,
        limits: Limits | None = None,
        messages: tuple[Message, ...] = (),
        end_wait_s: float = BOUND_S,
    ) -> None:
        self.model = Answers(*answers)
        self.sender = sender or FakeQuestionSender()
        self.log = log or FakeLog()
        self.requests = Requests()
        self.counters = Counters()
        self.gate = QuestionGate(
            sender=self.sender,
            asker=Asker("p1", 1, "s1"),
            assistant_entry_id=lambda: self.log.last_assistant_entry_id,
        )
        self.interruption = InterruptionAdapter(self.gate.note, ask_tools)
        self.policy = StopPolicy(
            limits=limits or Limits(),
            counters=lambda: self.counters,
            requested=lambda: self.requests.reason,
            interrupted=lambda: self.interruption.interruption is not None,
        )
        self.agent = Agent(
            stream_fn=self.model.stream,
            messages=messages,
            tools=[*asking_tools(self.gate), *tools],
            after_tool_call=self.interruption.after_tool_call,
            should_stop_after_turn=self.policy.should_stop_after_turn,
        )
        self.agent.subscribe(self.log.persist)
        self.agent.subscribe(self._count)
        self.parts = RunParts(
            policy=self.policy,
            interruption=self.interruption,
            gate=self.gate,
            log=self.log,
            requests=self.requests,
            classify=lambda message: ModelFailure("model_overloaded", str(message["errorMessage"]), True),
            end_wait_s=lambda: end_wait_s,
        )

    def _count(self, event: AgentEvent, _signal: AbortSignal | None) -> None:
        self.counters.turns += isinstance(event, TurnEnd)

    async def run(self, start: Start | None = None) -> Outcome:
        given = StartWithPrompt((user("Deploy it."),)) if start is None else start
        return await asyncio.wait_for(run_agent_until_settled(self.agent, given, self.parts), 3 * BOUND_S)

    def roles(self) -> list[str]:
        return [message["role"] for message in self.log.messages]


def own_tool(name: str, execute: Callable[[AbortSignal | None], object]) -> AgentTool:
    """A tool that calls (and awaits) `execute`; what it returns is the result, or "ok"."""

    async def run(
        _call_id: str, _args: JsonObject, signal: AbortSignal | None, _on_update: UpdateCallback
    ) -> ToolResult:
        returned = execute(signal)
        if asyncio.iscoroutine(returned):
            returned = await returned
        return cast("ToolResult", returned) if isinstance(returned, dict) else text_result("ok")

    return AgentTool(name=name, description=name, parameters={"type": "object"}, execute=run)


def nothing(_signal: AbortSignal | None) -> None:
    """A tool that is done at once."""


ASK = answer("", call("call-1", "ask_user", question="Which one?"))


# --- asking: the four cases of the story ---


async def test_one_ask_ends_the_run_after_its_turn_with_one_request_and_its_result_logged() -> None:
    scene = Scene(ASK)
    outcome = await scene.run()
    settlement = settle(outcome)
    assert isinstance(settlement, AskUser)
    assert [question.tool_call_id for question in settlement.questions] == ["call-1"]
    assert len(scene.model.requests) == 1
    assert scene.roles() == ["user", "assistant", "toolResult"]
    assert outcome.stop == Stop("interruption", another_turn=True)


async def test_an_ask_beside_ordinary_tools_lets_all_of_them_finish_and_asks_no_model_again() -> None:
    message = answer("", call("call-0", "look"), ASK["content"][0], call("call-2", "look"))
    scene = Scene(message, tools=(own_tool("look", nothing),))
    settlement = settle(await scene.run())
    assert isinstance(settlement, AskUser)
    assert scene.roles() == ["user", "assistant", "toolResult", "toolResult", "toolResult"]
    assert len(scene.model.requests) == 1


async def test_a_question_whose_result_cannot_be_logged_fails_and_is_withdrawn() -> None:
    scene = Scene(ASK, log=FakeLog(refuses=lambda message: message["role"] == "toolResult"))
    outcome = await scene.run()
    assert outcome.interruption is None
    settlement = settle(outcome)
    assert isinstance(settlement, Failure)
    assert settlement.reason == "persistence_failed"
    assert settlement.withdrawn_questions == (scene.sender.questions[0].question_id,)


async def test_without_an_ask_the_run_ends_as_ever() -> None:
    scene = Scene(answer("", call("call-0", "look")), answer("Done."), tools=(own_tool("look", nothing),))
    outcome = await scene.run()
    assert settle(outcome) == Success("Done.")
    assert outcome.stop is None
    assert len(scene.model.requests) == 2


# --- asking: the rest ---


async def test_every_question_of_the_turn_is_reported() -> None:
    scene = Scene(answer("", ASK["content"][0], call("call-2", "ask_user", question="And when?")))
    settlement = settle(await scene.run())
    assert isinstance(settlement, AskUser)
    assert [question.tool_call_id for question in settlement.questions] == ["call-1", "call-2"]
    assert all(question.entry_id == "e1" for question in settlement.questions)


async def test_a_refused_question_lets_the_agent_go_on() -> None:
    scene = Scene(answer("", call("call-1", "ask_user", question=" ")), answer("Then without."))
    assert settle(await scene.run()) == Success("Then without.")


async def test_a_shell_that_prints_the_same_text_does_not_stop_the_run() -> None:
    fake = own_tool("bash", lambda _signal: text_result('{"ask_user_sent": true}'))
    scene = Scene(answer("", call("call-1", "bash")), answer("Done."), tools=(fake,))
    assert settle(await scene.run()) == Success("Done.")


async def test_a_further_asking_tool_is_waited_for_like_the_others() -> None:
    asking = own_tool("ticket", lambda _signal: text_result('{"ask_user_sent": true}'))
    scene = Scene(answer("", call("call-1", "ticket")), tools=(asking,), ask_tools=("ticket",))
    settlement = settle(await scene.run())
    assert isinstance(settlement, AskUser)
    assert settlement.questions[0].tool_name == "ticket"


async def test_a_failed_answer_after_nothing_was_asked_has_no_interruption_left_from_an_earlier_run() -> None:
    scene = Scene(ASK, answer("", stop_reason="error", error="busy"))
    assert (await scene.run()).interruption is not None
    outcome = await scene.run()
    assert outcome.interruption is None
    assert outcome.model_failure == ModelFailure("model_overloaded", "busy", True)


async def test_an_abort_while_the_question_is_under_way_still_ends_as_ask_user() -> None:
    scene = Scene(ASK, sender=FakeQuestionSender(held=True))
    running = asyncio.ensure_future(scene.run())
    await scene.sender.came.wait()
    scene.requests.request("cancelled")
    assert scene.agent.signal is not None
    await scene.agent.signal.wait()
    scene.sender.release()
    outcome = await running
    assert outcome.aborted_for == "cancelled"
    assert isinstance(settle(outcome), AskUser)


async def test_the_gate_is_closed_once_the_run_is_over() -> None:
    scene = Scene(answer("Done."))
    await scene.run()
    late = asking_tools(scene.gate)[0]
    with pytest.raises(Exception, match="the run is over"):
        await late.execute("call-9", {"question": "Late?"}, None, lambda _partial: None)
    assert scene.sender.questions == []


# --- what a failed run leaves behind ---


async def test_tools_left_in_flight_are_cancelled_and_awaited_before_anything_is_read() -> None:
    ended: list[str] = []
    started = asyncio.Event()

    async def endless(_signal: AbortSignal | None) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def quick(_signal: AbortSignal | None) -> None:
        await started.wait()

    scene = Scene(
        answer("", call("call-1", "endless"), call("call-2", "quick")),
        tools=(own_tool("endless", endless), own_tool("quick", quick)),
    )
    scene.agent.subscribe(_failing_on("tool_execution_end"))
    outcome = await scene.run()
    assert ended == ["endless"]
    assert not scene.agent.in_flight
    settlement = settle(outcome)
    assert isinstance(settlement, Failure)
    assert settlement.reason == "internal"


async def test_a_tool_that_asks_while_it_is_being_cancelled_sends_nothing() -> None:
    scene = Scene(answer("", call("call-1", "stubborn"), call("call-2", "quick")))
    started = asyncio.Event()
    refused: list[str] = []

    async def stubborn(_signal: AbortSignal | None) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            late = await scene.gate.ask(Ask(tool_call_id="call-9", tool_name="ask_user", question="?"), None)
            assert isinstance(late, NotAsked)
            refused.append(late.message)

    async def quick(_signal: AbortSignal | None) -> None:
        await started.wait()

    scene.agent.state.tools = [own_tool("stubborn", stubborn), own_tool("quick", quick)]
    scene.agent.subscribe(_failing_on("tool_execution_end"))
    await scene.run()
    assert len(refused) == 1
    assert scene.sender.questions == []


async def test_a_question_left_in_flight_by_a_failed_run_is_waited_for_and_withdrawn() -> None:
    sender = FakeQuestionSender(held=True)

    async def quick(_signal: AbortSignal | None) -> None:
        await sender.came.wait()

    scene = Scene(
        answer("", ASK["content"][0], call("call-2", "quick")), tools=(own_tool("quick", quick),), sender=sender
    )
    scene.agent.subscribe(_failing_on("tool_execution_end"))
    scene.agent.subscribe(lambda event, _signal: sender.release() if event.type == "agent_end" else None)
    outcome = await scene.run()
    assert [question.confirmed for question in outcome.questions] == [True]
    settlement = settle(outcome)
    assert isinstance(settlement, Failure)
    assert settlement.withdrawn_questions == (sender.questions[0].question_id,)


async def test_a_question_that_gets_no_answer_in_time_counts_as_possibly_sent() -> None:
    sender = FakeQuestionSender(held=True)

    async def quick(_signal: AbortSignal | None) -> None:
        await sender.came.wait()

    scene = Scene(
        answer("", ASK["content"][0], call("call-2", "quick")),
        tools=(own_tool("quick", quick),),
        sender=sender,
        end_wait_s=0.0,
    )
    scene.agent.subscribe(_failing_on("tool_execution_end"))
    outcome = await scene.run()
    assert [question.confirmed for question in outcome.questions] == [False]


def _failing_on(event_type: str) -> Callable[[AgentEvent, AbortSignal | None], None]:
    def listener(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if event.type == event_type:
            raise ValueError("a listener with a secret: hunter2")

    return listener


# --- errors ---


async def test_a_model_error_is_classified() -> None:
    outcome = await Scene(answer("", stop_reason="error", error="529 busy")).run()
    assert outcome.model_failure == ModelFailure("model_overloaded", "529 busy", True)


async def test_an_exception_inside_the_run_is_not_taken_for_a_model_error() -> None:
    outcome = await Scene(KeyError("delta")).run()
    assert outcome.last_assistant is not None
    assert outcome.last_assistant.stop_reason == "error"
    assert outcome.model_failure is None


async def test_a_run_that_raises_is_named_by_its_exception_without_its_text() -> None:
    scene = Scene(answer("Done."))
    scene.agent.subscribe(_failing_on("agent_end"))
    outcome = await scene.run()
    assert outcome.prompt_raised == "the run raised ValueError"
    settlement = settle(outcome)
    assert isinstance(settlement, Failure)
    assert "hunter2" not in settlement.message


async def test_a_log_that_breaks_at_the_input_leaves_the_input_not_taken() -> None:
    scene = Scene(answer("Done."), log=FakeLog(refuses=lambda message: message["role"] == "user"))
    outcome = await scene.run()
    assert outcome.log_broken == "No space left on device"
    assert not outcome.input_taken
    assert not outcome.appended


# --- limits, pause, cancel, deadline ---


def looping(count: int) -> list[Message]:
    return [answer("", call(f"call-{number}", "look")) for number in range(count)]


async def test_a_turn_limit_stops_the_loop_after_that_turn() -> None:
    scene = Scene(*looping(5), tools=(own_tool("look", nothing),), limits=Limits(max_turns=2))
    outcome = await scene.run()
    assert outcome.stop == Stop("turn_limit", another_turn=True)
    assert len(scene.model.requests) == 2


async def test_a_terminating_batch_at_the_limit_is_a_natural_end() -> None:
    submit = own_tool("submit", lambda _signal: {**text_result("accepted"), "terminate": True})
    scene = Scene(answer("", call("call-1", "submit")), tools=(submit,), limits=Limits(max_turns=1))
    outcome = await scene.run()
    assert outcome.stop == Stop("turn_limit", another_turn=False)
    assert settle(outcome) == Success("accepted")


async def test_a_used_up_limit_keeps_the_run_from_starting_and_the_input_from_being_taken() -> None:
    scene = Scene(limits=Limits(max_turns=3))
    scene.counters.turns = 3
    outcome = await scene.run()
    assert outcome.stop == Stop("turn_limit", another_turn=True)
    assert (outcome.appended, outcome.input_taken) == (False, False)
    assert scene.log.messages == []


async def test_a_pause_stops_after_the_turn_and_lists_what_is_still_queued() -> None:
    scene = Scene(*looping(2))

    def pause(_signal: AbortSignal | None) -> None:
        scene.requests.request("paused")
        scene.agent.steer(user("Look left, too."))
        scene.agent.follow_up({"role": "user", "content": "And then rest."})

    scene.agent.state.tools = [own_tool("look", pause)]
    outcome = await scene.run()
    assert outcome.stop == Stop("paused", another_turn=True)
    assert outcome.aborted_for is None
    assert outcome.undelivered == (
        Undelivered("steering", "Look left, too."),
        Undelivered("follow_up", "And then rest."),
    )
    settlement = settle(outcome)
    assert isinstance(settlement, Failure)
    assert settlement.reason == "paused"


async def test_a_cancel_during_an_answer_aborts_it() -> None:
    scene = Scene(Hang())
    running = asyncio.ensure_future(scene.run())
    await _first_request(scene)
    scene.requests.request("cancelled")
    outcome = await running
    assert outcome.aborted_for == "cancelled"
    assert outcome.last_assistant is not None
    assert outcome.last_assistant.stop_reason == "aborted"
    assert (outcome.appended, outcome.input_taken) == (True, True)


async def test_a_cancel_during_a_tool_ends_after_the_turn_without_a_further_request() -> None:
    started = asyncio.Event()

    async def patient(signal: AbortSignal | None) -> None:
        assert signal is not None
        started.set()
        await signal.wait()

    scene = Scene(*looping(2), tools=(own_tool("look", patient),))
    scene.agent.steer(user("first"))
    running = asyncio.ensure_future(scene.run())
    await started.wait()
    scene.agent.steer(user("queued"))
    scene.requests.request("cancelled")
    outcome = await running
    assert outcome.stop == Stop("cancelled", another_turn=True)
    assert outcome.undelivered == (Undelivered("steering", "queued"),)
    assert len(scene.model.requests) == 1


async def test_an_agent_that_ignores_its_abort_is_cut_off() -> None:
    scene = Scene(Hang(deaf=True), end_wait_s=0.01)
    running = asyncio.ensure_future(scene.run())
    await _first_request(scene)
    scene.requests.request("cancelled")
    outcome = await running
    assert outcome.prompt_raised == "the run did not end when it was aborted"
    settlement = settle(outcome)
    assert isinstance(settlement, Failure)
    assert settlement.reason == "cancelled"


async def test_an_urgent_request_does_not_wait_for_the_agent() -> None:
    scene = Scene(Hang(deaf=True), end_wait_s=3600)
    running = asyncio.ensure_future(scene.run())
    await _first_request(scene)
    scene.requests.request("cancelled")
    scene.requests.hurry()
    assert (await running).aborted_for == "cancelled"


async def test_at_the_deadline_a_turn_that_is_about_to_end_may_do_so() -> None:
    scene = Scene(*looping(2))
    waiting = asyncio.Event()

    def end_wait_s() -> float:
        waiting.set()
        return BOUND_S

    async def ending(signal: AbortSignal | None) -> None:
        scene.requests.request("deadline_exceeded")
        await waiting.wait()
        assert signal is not None
        assert not signal.aborted

    scene.agent.state.tools = [own_tool("look", ending)]
    scene.parts = replace(scene.parts, end_wait_s=end_wait_s)
    outcome = await scene.run()
    assert outcome.aborted_for is None
    assert outcome.stop == Stop("deadline_exceeded", another_turn=True)


async def test_a_turn_that_does_not_end_at_the_deadline_is_aborted() -> None:
    scene = Scene(Hang(), end_wait_s=0.05)
    running = asyncio.ensure_future(scene.run())
    await _first_request(scene)
    scene.requests.request("deadline_exceeded")
    outcome = await running
    assert outcome.aborted_for == "deadline_exceeded"
    settlement = settle(outcome)
    assert isinstance(settlement, Failure)
    assert settlement.reason == "deadline_exceeded"


async def test_cancelling_the_caller_cancels_the_run() -> None:
    scene = Scene(Hang(deaf=True))
    running = asyncio.ensure_future(scene.run())
    await _first_request(scene)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(scene.agent.wait_for_idle(), BOUND_S)


async def _first_request(scene: Scene) -> None:
    await asyncio.wait_for(scene.model.asked.wait(), BOUND_S)


# --- continuing ---


async def test_continuing_runs_on_the_restored_transcript_and_reads_nothing_from_it() -> None:
    asked = (user("Deploy it."), answer("Old answer."), user("To staging."))
    scene = Scene(answer("Done."), messages=asked)
    outcome = await scene.run(StartByContinuing())
    assert settle(outcome) == Success("Done.")
    assert outcome.input_taken
    assert scene.roles() == ["assistant"]


async def test_continuing_after_a_finished_answer_has_nothing_of_the_old_answer_in_its_outcome() -> None:
    scene = Scene(messages=(user("Deploy it."), answer("Old answer.")))
    outcome = await scene.run(StartByContinuing(input_taken=False))
    assert outcome.last_assistant is None
    assert outcome.prompt_raised == "the run raised AgentRefused"
    assert not outcome.input_taken


async def test_what_was_appended_is_measured_from_the_restored_session() -> None:
    scene = Scene(answer("Done."), log=FakeLog(messages=[user("restored"), user("appended before the run")]))
    scene.requests.request("cancelled")
    assert not (await scene.run()).appended

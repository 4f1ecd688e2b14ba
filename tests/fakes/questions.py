"""A question sender for tests: answers as told, and says when a question has come."""

import asyncio

from runner.agent.abort import AbortSignal
from runner.question_gate import SendResult, Sent
from settlement.question import Question


class FakeQuestionSender:
    """Sends nothing. With `held`, every question waits until `release` is called."""

    def __init__(self, *results: SendResult | Exception, held: bool = False) -> None:
        self._results = list(results)
        self._released = asyncio.Event()
        self.questions: list[Question] = []
        self.came = asyncio.Event()
        if not held:
            self._released.set()

    def release(self) -> None:
        self._released.set()

    async def send(self, question: Question, signal: AbortSignal | None) -> SendResult:
        self.questions.append(question)
        self.came.set()
        await self._released.wait()
        result = self._results.pop(0) if self._results else Sent()
        if isinstance(result, Exception):
            raise result
        return result

"""Calls that the agent refuses. The sentences are Pi's, since hosts and recordings compare them."""

from typing import Literal


class AgentRefused(Exception):
    """The call was refused before anything happened; `reason` says why."""

    def __init__(self, reason: Literal["busy", "nothing_to_continue", "not_running"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


def busy_prompting() -> AgentRefused:
    return AgentRefused(
        "busy",
        "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion.",
    )


def busy_continuing() -> AgentRefused:
    return AgentRefused("busy", "Agent is already processing. Wait for completion before continuing.")


def no_messages(sentence: str) -> AgentRefused:
    return AgentRefused("nothing_to_continue", sentence)


def assistant_tail() -> AgentRefused:
    return AgentRefused("nothing_to_continue", "Cannot continue from message role: assistant")


def outside_run() -> AgentRefused:
    return AgentRefused("not_running", "Agent listener invoked outside active run")

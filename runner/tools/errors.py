"""What goes wrong with tools: of one call (the model reads it), and of setting a tool up (the launch fails)."""


class ToolFailed(Exception):
    """One call failed. The text is for the model and becomes the call's error result.

    `reason` is for code: `refused`, `aborted`, `timeout`, `exit`, `signal`, `died`, `limit`, `failed`.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class ToolSetupError(Exception):
    """A tool or MCP server that the spec names cannot be set up; the message says which and why."""

    reason = "setup_failed"

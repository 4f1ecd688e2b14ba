"""The launch spec: what an orchestrator asks of one process (docs/launch.md).

Wire models only: shapes, defaults and the rules within one document. Refuses unknown fields, because a field that is
misspelt and ignored is a limit that is not there. What needs the file system or the environment is in `check.py`.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

Id: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
Digest: TypeAlias = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
NonEmpty: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=30 * 86400, allow_inf_nan=False)]
HttpPath: TypeAlias = Annotated[str, StringConstraints(pattern=r"^/[!\"$->@-~]*$", max_length=2000)]
"""Printable ASCII without a query or fragment."""
PathText: TypeAlias = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]
MAX_LABEL_BYTES = 4096
"""Of all labels together, as JSON: they are part of every question and callback, which hold 20 KB."""

CREDENTIAL_HEADERS = (
    "authorization",
    "cookie",
    "api-key",
    "apikey",
    "token",
    "secret",
    "credential",
    "password",
)


class SpecModel(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        defer_build=True,  # only the whole spec is ever validated, so only its validator is made
    )


class SecretRef(SpecModel):
    """The value is read from the secret of this name; the spec never holds it."""

    secret: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


# --- session and store ---------------------------------------------------------------------------------------


class ManifestRestore(SpecModel):
    manifest: PathText
    digest: Digest


class JsonlRestore(SpecModel):
    jsonl: PathText
    digest: Digest | None = None


def _restore_kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "jsonl" if "jsonl" in value else "manifest"
    return "jsonl" if isinstance(value, JsonlRestore) else "manifest"


Restore: TypeAlias = Annotated[
    Annotated[ManifestRestore, Tag("manifest")] | Annotated[JsonlRestore, Tag("jsonl")],
    Discriminator(_restore_kind),
]


class SessionSpec(SpecModel):
    id: Id
    restore: Restore | None = None
    on_damage: Literal["fail", "skip"] = "fail"


class StoreSpec(SpecModel):
    uri: PathText
    endpoint_url: str | None = None
    region: str | None = None
    addressing_style: Literal["auto", "path", "virtual"] | None = None
    unsafe_conditions: bool = False


# --- input ---------------------------------------------------------------------------------------------------


class TextBlock(SpecModel):
    type: Literal["text"]
    text: str


class ImageBlock(SpecModel):
    type: Literal["image"]
    data: NonEmpty
    """base64"""
    mimeType: Annotated[str, StringConstraints(pattern=r"^image/[a-z0-9.+-]+$")]


Block: TypeAlias = Annotated[TextBlock | ImageBlock, Field(discriminator="type")]


def _message_kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "blocks"


UserText: TypeAlias = Annotated[
    Annotated[NonEmpty, Tag("text")] | Annotated[list[Block], Field(min_length=1), Tag("blocks")],
    Discriminator(_message_kind),
]


class Reply(SpecModel):
    tool_call_id: NonEmpty
    message: UserText


class InputSpec(SpecModel):
    message: UserText | None = None
    reply: Reply | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "InputSpec":
        if (self.message is None) == (self.reply is None):
            raise ValueError("give either `message` or `reply`; leave `input` out to continue")
        return self


# --- agent ---------------------------------------------------------------------------------------------------

ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]


class Cost(SpecModel):
    """US dollars per million tokens."""

    input: Annotated[float, Field(ge=0)] = 0.0
    output: Annotated[float, Field(ge=0)] = 0.0
    cache_read: Annotated[float, Field(ge=0)] = 0.0
    cache_write: Annotated[float, Field(ge=0)] = 0.0


class Timeouts(SpecModel):
    connect_s: Seconds | None = None
    first_byte_s: Seconds | None = None
    between_events_s: Seconds | None = None
    total_s: Seconds | None = None


class ModelSpec(SpecModel):
    api: Literal["anthropic-messages", "openai-completions", "openai-responses", "scripted"]
    provider: NonEmpty | None = None
    id: NonEmpty | None = None
    script: PathText | None = None
    base_url: str | None = None
    headers: dict[str, str | SecretRef] = Field(default_factory=dict)
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    thinking_level: ThinkingLevel = "off"
    thinking_budgets: dict[ThinkingLevel, Annotated[int, Field(ge=1)]] | None = None
    context_window: Annotated[int, Field(ge=1)] | None = None
    input: list[Literal["text", "image"]] = Field(default_factory=lambda: ["text"])
    cost: Cost | None = None
    compat: dict[str, Any] | None = None
    timeouts: Timeouts | None = None
    max_retries: Annotated[int, Field(ge=0, le=20)] = 4
    max_retry_delay_s: Seconds = 60.0

    @field_validator("headers")
    @classmethod
    def _no_literal_credentials(cls, headers: dict[str, str | SecretRef]) -> dict[str, str | SecretRef]:
        for name, value in headers.items():
            if isinstance(value, str) and any(part in name.lower() for part in CREDENTIAL_HEADERS):
                raise ValueError(f'the header {name!r} carries a credential: write {{"secret": "name"}}')
        return headers

    @model_validator(mode="after")
    def _script_goes_with_scripted(self) -> "ModelSpec":
        if self.api == "scripted":
            if self.script is None:
                raise ValueError("a scripted model needs `script`, the path of its JSON file")
            meaningless = sorted(self.model_fields_set & _NETWORK_FIELDS)
            if meaningless:
                raise ValueError(f"a scripted model has no {', '.join(f'`{name}`' for name in meaningless)}")
        else:
            if self.script is not None:
                raise ValueError('`script` goes with `"api": "scripted"` only')
            missing = [name for name in ("provider", "id") if getattr(self, name) is None]
            if missing:
                raise ValueError(f"{' and '.join(f'`{name}`' for name in missing)} must be given")
        return self


_NETWORK_FIELDS = frozenset(
    {"base_url", "headers", "max_tokens", "temperature", "thinking_budgets", "compat", "timeouts"}
)


class StdioServer(SpecModel):
    command: NonEmpty
    args: list[str] = Field(default_factory=list)
    env: dict[str, str | SecretRef] = Field(default_factory=dict)


class HttpServer(SpecModel):
    url: NonEmpty
    headers: dict[str, str | SecretRef] = Field(default_factory=dict)


def _mcp_kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "http" if "url" in value else "stdio"
    return "http" if isinstance(value, HttpServer) else "stdio"


McpServer: TypeAlias = Annotated[
    Annotated[StdioServer, Tag("stdio")] | Annotated[HttpServer, Tag("http")], Discriminator(_mcp_kind)
]


class AgentSpec(SpecModel):
    model: ModelSpec
    system_prompt: str | None = None
    tools: list[NonEmpty] | None = None
    ask_tools: list[NonEmpty] = Field(default_factory=list)
    mcp: dict[Id, McpServer] = Field(default_factory=dict)
    fallback_models: list[ModelSpec] = Field(default_factory=list)


# --- server, limits and the rest -----------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServerSpec(SpecModel):
    base_url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    ask_user_path: HttpPath = "/v1/questions"
    callback_path: HttpPath = "/v1/terminals"
    heartbeat_path: HttpPath | None = None
    heartbeat_s: Seconds = 20.0
    insecure: bool = False

    @model_validator(mode="after")
    def _transport_is_safe(self) -> "ServerSpec":
        problem = address_problem(self.base_url, insecure=self.insecure)
        if problem is not None:
            raise ValueError(problem)
        return self

    def url(self, path: str) -> str:
        return self.base_url.rstrip("/") + path

    @property
    def callback_url(self) -> str:
        return self.url(self.callback_path)

    @property
    def ask_user_url(self) -> str:
        return self.url(self.ask_user_path)

    @property
    def heartbeat_url(self) -> str | None:
        return None if self.heartbeat_path is None else self.url(self.heartbeat_path)


def _is_host(host: str) -> bool:
    """A name, or an IP address; what looks like an IPv4 address must be one."""
    if ":" in host or re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True
    return re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", host) is not None


def address_problem(url: str, *, insecure: bool = False) -> str | None:
    """Why questions and callbacks must not be sent to `url`, or None."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return "must not hold spaces, control characters or letters beyond ASCII"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"not an address ({error})"
    if parts.scheme not in ("http", "https") or not host or port == 0 or not _is_host(host):
        return "must be an http:// or https:// address"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password"
    if parts.query or parts.fragment:
        return "must not have a query or fragment"
    if parts.scheme == "http" and not insecure and not is_loopback(host):
        return "http:// is for loopback only: use https://, or set `insecure` to true"
    return None


class Limits(SpecModel):
    max_turns: Annotated[int, Field(ge=1)] = 200
    deadline_s: Seconds = 3600.0
    grace_s: Seconds = 25.0
    callback_s: Seconds = 600.0
    max_total_tokens: Annotated[int, Field(ge=1)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    scope: Literal["pipeline", "session"] = "pipeline"

    @model_validator(mode="after")
    def _deadline_leaves_a_grace(self) -> "Limits":
        if self.deadline_s <= self.grace_s:
            raise ValueError(f"`deadline_s` ({self.deadline_s:g}) must be greater than `grace_s` ({self.grace_s:g})")
        return self


class CheckpointSpec(SpecModel):
    every: Literal["end", "turn", "call"] = "end"


class IsolationSpec(SpecModel):
    required: Literal["none", "process", "landlock", "namespace"] = "none"
    network: bool = True
    memory_mb: Annotated[int, Field(ge=1)] = 2048
    processes: Annotated[int, Field(ge=1)] = 256
    file_mb: Annotated[int, Field(ge=1)] = 1024
    cpu_s: Annotated[int, Field(ge=1)] | None = None


class Spec(SpecModel):
    """Version 1 of the launch spec."""

    version: Literal[1]
    pipeline_id: Id
    attempt: Annotated[int, Field(ge=1, le=2**31)] = 1
    session: SessionSpec
    store: StoreSpec
    input: InputSpec | None = None
    agent: AgentSpec
    server: ServerSpec | None = None
    limits: Limits = Field(default_factory=Limits)
    checkpoint: CheckpointSpec = Field(default_factory=CheckpointSpec)
    isolation: IsolationSpec = Field(default_factory=IsolationSpec)
    control: PathText | None = None
    workspace: PathText = "workspace"
    labels: dict[str, str] = Field(default_factory=dict)
    """Echoed in every question and in the callback, so bounded: 4 KB as JSON."""
    traceparent: (
        Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")] | None
    ) = None

    @field_validator("labels")
    @classmethod
    def _labels_are_short(cls, labels: dict[str, str]) -> dict[str, str]:
        size = len(json.dumps(labels, ensure_ascii=False, separators=(",", ":")).encode())
        if size > MAX_LABEL_BYTES:
            raise ValueError(f"together {size} bytes long; at most {MAX_LABEL_BYTES} are echoed: shorten them")
        return labels

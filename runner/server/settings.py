"""What `runner serve` is told, the folder it keeps, and the two secrets it makes: the token of people, and the key that
runners sign with.

    FOLDER/private/      hidden from tools as the secrets directory: callback_secret, token, keys, the database
    FOLDER/private/runs/ one folder per attempt: spec.json, events.jsonl, stderr.log
    FOLDER/workspaces/   one folder per session
    FOLDER/store/        the object store, unless the template names another

Refuses a private folder that others may read, and a token that can be guessed.
"""

import hashlib
import hmac
import os
import secrets
import shlex
import stat
import string
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from runner.server.errors import ServeRefused
from settlement.errors import SecretInvalid
from settlement.signing import CallbackSecrets

MIN_TOKEN = 20
PLACEHOLDERS = ("spec", "secrets", "pipeline_id", "attempt", "session_id")


class ServeOptions(Struct, frozen=True):
    """The command line's options of `runner serve`."""

    folder: Path
    template: Path | None = None
    """None: `template.json` in the folder."""
    host: str = "127.0.0.1"
    port: int = 0
    token_file: Path | None = None
    command: str | None = None
    slots: int = 2
    attempts: int = 3
    """Processes that are started for one pipeline before it counts as lost."""
    reply_timeout_s: float | None = None


class Folder:
    """Where everything lies; made on first use. Raises ServeRefused where it cannot be."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.private = self.path / "private"
        self.runs = self.private / "runs"
        self.workspaces = self.path / "workspaces"
        self.store = self.path / "store"
        self.database = self.private / "server.sqlite"
        self.port = self.private / "port"

    def make(self) -> None:
        try:
            for place in (self.path, self.workspaces):
                place.mkdir(parents=True, exist_ok=True)
            for place in (self.private, self.runs):
                place.mkdir(mode=0o700, exist_ok=True)
                place.chmod(0o700)
        except OSError as error:
            raise ServeRefused(f"{self.path} cannot be used ({error.strerror}): name another folder") from None

    def run(self, pipeline_id: str, attempt: int) -> Path:
        return self.runs / f"{pipeline_id}.{attempt}"

    def events(self, pipeline_id: str, attempt: int) -> Path:
        """What the process says on standard output."""
        return self.run(pipeline_id, attempt) / "events.jsonl"


def callback_secrets(folder: Folder) -> CallbackSecrets:
    """The key runners sign with; made on the first start."""
    path = folder.private / "callback_secret"
    text = _read_or_make(path, lambda: "whsec_" + b64encode(secrets.token_bytes(32)).decode())
    try:
        return CallbackSecrets.parse(text)
    except SecretInvalid as error:
        raise ServeRefused(f"{path}: {error.message}") from None


class Token:
    """What a person shows to use the API. Never shown again by the server: not in an answer, a log or a `repr`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.cookie = hmac.digest(text.encode(), b"runner serve: cookie", hashlib.sha256).hex()
        """What the browser keeps instead of the token."""

    def fits(self, shown: str) -> bool:
        return hmac.compare_digest(self.text.encode(), shown.encode("utf-8", "surrogatepass"))

    def cookie_fits(self, shown: str) -> bool:
        return hmac.compare_digest(self.cookie.encode(), shown.encode("utf-8", "surrogatepass"))

    def link(self, url: str) -> str:
        """For the terminal of whoever started the server, and nothing else."""
        return f"{url}/?token={self.text}"


def load_token(folder: Folder, path: Path | None) -> Token:
    """The token of `path`, or of the folder; made where the file does not exist."""
    path = path or folder.private / "token"
    text = _read_or_make(path, lambda: secrets.token_urlsafe(32)).strip()
    if len(text) < MIN_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise ServeRefused(f"{path}: a token has at least {MIN_TOKEN} printable ASCII characters: remove the file")
    return Token(text)


def _read_or_make(path: Path, make: Callable[[], str]) -> str:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read_private(path)
    except OSError as error:
        raise ServeRefused(f"{path} cannot be made ({error.strerror}): name another file") from None
    with os.fdopen(descriptor, "w") as file:
        text = make()
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    return text


def _read_private(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ServeRefused(f"{path} cannot be read ({error}): remove it, and a new one is made") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ServeRefused(f"{path} may be read by others: chmod 600 it")
    return text


class CommandTemplate:
    """How a pipeline is started. Placeholders: `{spec}`, `{secrets}`, `{pipeline_id}`, `{attempt}`, `{session_id}`."""

    def __init__(self, text: str) -> None:
        """Raises ServeRefused for what is no command, names no `{spec}`, or has other placeholders."""
        try:
            self._words = shlex.split(text)
            found = [part[1:] for word in self._words for part in string.Formatter().parse(word) if part[1] is not None]
        except ValueError as error:
            raise ServeRefused(f"--command: {error}") from None
        used = {name for name, _, _ in found}
        unknown = sorted(
            {f"{name}{'!' + how if how else ''}{':' + form if form else ''}" for name, form, how in found}
            - set(PLACEHOLDERS)
        )
        if unknown or "spec" not in used:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            problem = f"unknown placeholder {{{unknown[0]}}}" if unknown else "{spec} is missing"
            raise ServeRefused(f"--command: {problem}; there are {known}")

    def words(self, **values: str) -> list[str]:
        return [word.format(**values) for word in self._words]

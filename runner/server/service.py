"""What the endpoints share: the open database, the secrets, the folder, and the way to look again."""

import secrets
import time

from msgspec import Struct
from starlette.requests import Request

from runner.logs import Logger
from runner.server.database import Database
from runner.server.live import Changes
from runner.server.settings import Folder, Token
from runner.server.taking import Moment
from runner.server.transcripts import Transcripts
from settlement.signing import CallbackSecrets


class Service(Struct):
    database: Database
    signing: CallbackSecrets
    token: Token
    folder: Folder
    transcripts: Transcripts
    changes: Changes
    log: Logger
    reply_timeout_s: float | None = None

    def moment(self) -> Moment:
        return Moment(time.time(), new_pipeline_id, self.reply_timeout_s)


def new_pipeline_id() -> str:
    return f"p-{secrets.token_hex(8)}"


def service_of(request: Request) -> Service:
    return request.app.state.service

"""Requests made up from the OpenAPI document: no answer is a server error, none is one the document does not have."""

import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from starlette.types import ASGIApp, Receive, Scope, Send

from runner.server.people import NewTask, start_task
from settlement.signing import webhook_headers
from tests.unit.runner.server.application import BEARER, HOST, a_service, application
from tests.unit.settlement.samples import SECRETS

GENERAL: Any = import_module("schemathesis.checks")
OF_OPENAPI: Any = import_module("schemathesis.specs.openapi.checks")
CHECKS = [
    GENERAL.not_a_server_error,
    OF_OPENAPI.status_code_conformance,
    OF_OPENAPI.content_type_conformance,
    OF_OPENAPI.response_schema_conformance,
]
STREAM = "/api/sessions/{session_id}/events"
"""Answers for ever where the session exists; its own tests read it."""


class _Late:
    """An application that is known before the test's folder is."""

    app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None, "the fixture sets it"
        await self.app(scope, receive, send)


LATE = _Late()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with a_service(tmp_path_factory.mktemp("schema")) as service:
        moment = service.moment()
        service.database.submit(
            lambda rows: start_task(rows, "Deploy.", NewTask("s1", "t1"), None, "local:me", moment)
        ).result(10)
        LATE.app = application(service)
        yield
        LATE.app = None


def _document() -> dict[str, object]:
    return json.loads((Path(__file__).parents[4] / "docs" / "schemas" / "openapi.json").read_text())


WHOLE: Any = schemathesis.openapi.from_dict(_document())
SCHEMA: Any = WHOLE.exclude(path=STREAM)
SCHEMA.app = LATE


def _without_a_reason_to_stop() -> Any:
    """What schemathesis makes is not ours to make faster or smaller."""
    return list(HealthCheck)


@SCHEMA.parametrize()
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=_without_a_reason_to_stop(),
    database=None,
)
def test_every_answer_is_in_the_document(case: Any, served: None) -> None:
    headers = {"host": HOST, **BEARER}
    sent: Any = case.body
    if case.path.startswith("/v1/") and isinstance(sent, dict):
        headers |= signed(cast("dict[str, Any]", sent))
    response = case.call(headers=headers)
    case.validate_response(response, checks=CHECKS)


def signed(sent: dict[str, Any]) -> dict[str, str]:
    """As a runner signs it, where the body says for what."""
    body, named = json.dumps(sent).encode(), sent.get("question_id")
    try:
        return webhook_headers(SECRETS, str(named or f"term_{sent.get('pipeline_id')}"), int(time.time()), body)
    except ValueError:
        return webhook_headers(SECRETS, "term_p1", int(time.time()), body)

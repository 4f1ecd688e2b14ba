"""`runner deliver`: send the stored terminal record of one pipeline again, without its spec.

Everything needed is in the head: the exact body, its id and the address it was meant for. Refuses a head that is not
settled, and an address that a launch would have refused.
"""

import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

from checkpoint.errors import CheckpointError, StoreError
from checkpoint.head import Head
from checkpoint.head_writer import HeadWriter
from checkpoint.keys import pipeline_of
from checkpoint.store.port import ObjectStore
from runner.blocking import run_in_loop
from runner.errors import InfrastructureError, Refused, Superseded, Unacknowledged
from runner.exits import Exit
from runner.logs import Logger, configure_logs
from runner.secrets import AWS_NAMES, load_secrets
from runner.spec import StoreSpec, address_problem
from runner.store_access import store_opener
from runner.wiring import HttpCourier
from settlement.errors import SecretInvalid
from settlement.signing import CallbackSecrets
from settlement.verdict import Delivered, GaveUp, Rejected
from settlement.verdict import Refused as ServerRefused


def split_head_address(address: str) -> tuple[str, str]:
    """The store's address and the pipeline's id of `<store>/pipelines/<id>/head.json`. Raises Refused."""
    parts = address.rsplit("/", 3)
    pipeline = pipeline_of("/".join(parts[-3:])) if len(parts) >= 3 else None
    if pipeline is None:
        raise Refused("not_a_head", [f"{address} is not the address of a head: it ends in pipelines/<id>/head.json"])
    store = parts[0] if len(parts) == 4 else "."
    try:
        split = urlsplit(store)
        address.encode()
    except ValueError as error:
        raise Refused("not_a_head", [f"{address!a} is no address ({error}): correct it"]) from None
    if "://" in store and not split.netloc and not split.path:
        raise Refused("not_a_head", [f"{address} names no store"])
    return store or "/", pipeline


def deliver_head(
    address: str,
    *,
    secrets_folder: Path,
    endpoint_url: str | None,
    region: str | None,
    addressing_style: str | None,
    callback_s: float,
    insecure: bool,
    environ: MutableMapping[str, str],
) -> int:
    """Deliver the record at `address`; returns the exit code. Raises RunnerError for everything that prevents it."""
    uri, pipeline_id = split_head_address(address)
    secrets = load_secrets(secrets_folder, ["callback_secret", *AWS_NAMES], environ)
    settings = StoreSpec.model_validate(
        {"uri": uri, "endpoint_url": endpoint_url, "region": region, "addressing_style": addressing_style}
    )
    try:
        store: ObjectStore = store_opener(settings, Path.cwd(), secrets)(uri)
        writer = HeadWriter(store, pipeline_id)
        head = writer.read()
        url = _url_of(head, address, insecure=insecure)
        if head is None or head.fields.terminal is None or url is None:
            _say(f"there is nothing to deliver for pipeline {pipeline_id}: no server waits for its record")
            return Exit.ACKNOWLEDGED
        signing = _signing(secrets.get("callback_secret"), secrets_folder)
        log = configure_logs(secrets, pipeline_id=pipeline_id)
        courier = HttpCourier(signing, log)
        terminal = head.fields.terminal
        sending = courier.deliver(url, terminal.webhook_id, terminal.body.encode(), callback_s)
        match run_in_loop(sending).verdict:
            case Delivered():
                _note(writer.acknowledge, log)
                _say(f"the server has taken the record of pipeline {pipeline_id}")
                return Exit.ACKNOWLEDGED
            case Rejected(status, problem):
                _note(writer.reject, log)
                raise Superseded("rejected", f"the server rejected the record for good (HTTP {status}, {problem})")
            case ServerRefused(status):
                mend = "compare both sides' `callback_secret`" if status == 401 else f"see what answers at {url}"
                raise Unacknowledged("unacknowledged", f"the server refused the callback with HTTP {status}: {mend}")
            case GaveUp():
                raise Unacknowledged("unacknowledged", "the server did not acknowledge in time: try again later")
    except StoreError as error:
        if error.reason in ("misconfigured", "missing_bucket"):
            raise Refused(error.reason, [error.message]) from error
        raise InfrastructureError(error.reason, error.message) from error
    except CheckpointError as error:
        raise Refused(error.reason, [error.message]) from error


def _say(what: str) -> None:
    sys.stdout.write(f"runner: {what}\n")


def _note(write: Callable[[], object], log: Logger) -> None:
    """Best effort: the server has decided anyway."""
    try:
        write()
    except CheckpointError as error:
        log.warning("verdict_not_noted", error=error.message)


def _url_of(head: Head | None, address: str, *, insecure: bool) -> str | None:
    """Where the record is to go; None if there is nothing left to do."""
    if head is None:
        raise Refused("no_head", [f"{address} does not exist: check the address"])
    fields = head.fields
    if fields.state == "claimed":
        raise Refused(
            "not_settled", [f"pipeline {fields.pipeline_id} has not settled: there is nothing to deliver yet"]
        )
    if fields.state == "rejected":
        raise Superseded("rejected", f"the server rejected the record of pipeline {fields.pipeline_id} before")
    if fields.state == "acknowledged" or fields.callback_url is None:
        return None
    problem = address_problem(fields.callback_url, insecure=insecure)
    if problem is not None:
        raise Refused("callback_url", [f"the head's callback_url {fields.callback_url}: {problem}"])
    return fields.callback_url


def _signing(text: str | None, folder: Path) -> CallbackSecrets:
    if text is None:
        where = f"put it in the file {folder / 'callback_secret'} or in the variable CALLBACK_SECRET"
        raise Refused("secret_missing", [f"secret `callback_secret` is missing: {where}"])
    try:
        return CallbackSecrets.parse(text)
    except SecretInvalid as error:
        raise Refused("secret_invalid", [error.message]) from None

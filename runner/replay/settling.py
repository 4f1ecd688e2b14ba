"""The end of a replay: freeze, settlement and checkpoint decision as the pipeline makes them, held against the recorded
terminal record.

Everything that a clock, a store or a launch put into the record is taken from it; the rest is worked out anew, in the
same code, down to the same shortening of what is too long.
"""

import json
import math
from typing import Any

import msgspec
from msgspec.structs import asdict
from pydantic import ValidationError

from checkpoint.freeze import Candidate
from checkpoint.jsontypes import JsonObject
from runner.inspection.differences import Change, json_changes
from runner.inspection.errors import SourceFailed
from runner.usage import UsageTotals
from settlement.callback import CheckpointRef, Timings, Usage, build_terminal, to_body
from settlement.decision import CheckpointFacts, Commit, input_consumed, resolve_checkpoint_decision
from settlement.outcome import Outcome, Undelivered
from settlement.settle import Failure, settle


def settlement_of(outcome: Outcome) -> JsonObject:
    """The settlement of an outcome, as JSON."""
    return msgspec.to_builtins(settle(outcome))


def settlement_changes(
    body: JsonObject, outcome: Outcome, candidate: Candidate, usage: UsageTotals, address: str
) -> list[Change]:
    """Where the terminal record differs from what the replay comes to. Raises SourceFailed if it is no such record."""
    try:
        return json_changes(body, _rebuilt(body, outcome, candidate, usage))
    except (ValidationError, KeyError, TypeError, AttributeError) as error:
        what = f"its terminal record is none of this runner ({type(error).__name__})"
        raise SourceFailed("damaged", address, what) from error


def _rebuilt(body: JsonObject, outcome: Outcome, candidate: Candidate, usage: UsageTotals) -> JsonObject:
    settlement = settle(outcome)
    decision = resolve_checkpoint_decision(settlement, CheckpointFacts(appended=outcome.appended))
    recorded: JsonObject = body["checkpoint"]
    commits = isinstance(decision, Commit)
    checkpoint = CheckpointRef(
        decision=decision.kind,
        manifest=recorded["manifest"] if commits else None,
        digest=recorded["digest"] if commits else None,
        parent=recorded["parent"],
        entries=candidate.entries,
        bytes=candidate.size,
        leaf_id=candidate.leaf_id,
        resumable=settlement.resumable if isinstance(settlement, Failure) else True,
    )
    terminal = build_terminal(
        pipeline_id=body["pipeline_id"],
        attempt=body["attempt"],
        session_id=body["session_id"],
        labels=body["labels"],
        settlement=settlement,
        checkpoint=checkpoint,
        input_consumed=input_consumed(outcome, decision),
        undelivered=[Undelivered(item["queue"], item["text"]) for item in body["undelivered"]],
        warnings=body["warnings"],
        usage=Usage(**_usage(usage, body["usage"])),
        timings=Timings.model_validate(body["timings"]),
        runner=body["runner"],
    )
    return json.loads(to_body(terminal))


def _usage(usage: UsageTotals, recorded: JsonObject) -> dict[str, Any]:
    """Costs are added up in another order where subagents ran, which may show in the last digits."""
    totals = asdict(usage)
    if math.isclose(totals["cost_usd"], recorded["cost_usd"], rel_tol=1e-9, abs_tol=1e-12):
        totals["cost_usd"] = recorded["cost_usd"]
    return totals

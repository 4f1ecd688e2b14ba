"""Plays recorded agent-loop scenarios against `runner.agent` and compares everything that was recorded.

`python -m tests.conformance.loop DIR [--jitter SEED]` runs any directory of scenario files. Where to look:
`shapes` (messages, results, digests), `recorder` (what is written down), `matching` (events that rules and
waits name), `model`, `tools`, `hooks` (what a scenario scripts), `actions` and `driver` (what it does),
`comparing`.
"""

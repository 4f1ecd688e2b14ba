"""The file tools' inside: a process of its own, confined like any tool, that reads and writes files on request.

It refuses to trust the runner's reach: whatever it can open, a shell command of the same confinement could open, too.
Modules in here import the standard library only, and its cheap parts at start (no dataclasses, no asyncio), because
the process starts anew whenever it dies.
"""

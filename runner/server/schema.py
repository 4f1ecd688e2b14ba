"""The server's tables. Every look-up that a request makes has its index here.

A change of them raises `SCHEMA_VERSION`, and a file of another version is refused.
"""

from typing import Final

SCHEMA_VERSION: Final = 1
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
  session_id TEXT PRIMARY KEY, stream_id TEXT NOT NULL, owner TEXT NOT NULL, created_s REAL NOT NULL,
  manifest TEXT, digest TEXT) STRICT;
CREATE INDEX IF NOT EXISTS sessions_of_owner ON sessions (owner, stream_id);
CREATE INDEX IF NOT EXISTS sessions_by_age ON sessions (created_s);
CREATE TABLE IF NOT EXISTS tasks (
  number INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES sessions, state TEXT NOT NULL, reason TEXT, deadline_s REAL,
  message TEXT NOT NULL, created_s REAL NOT NULL, changed_s REAL NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS tasks_of_session ON tasks (session_id, number);
CREATE INDEX IF NOT EXISTS tasks_with_deadline ON tasks (deadline_s) WHERE deadline_s IS NOT NULL;
CREATE TABLE IF NOT EXISTS pipelines (
  number INTEGER PRIMARY KEY AUTOINCREMENT, pipeline_id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES sessions, task_id TEXT NOT NULL REFERENCES tasks (task_id), input TEXT NOT NULL,
  standing TEXT NOT NULL, launched INTEGER NOT NULL DEFAULT 0, heard INTEGER NOT NULL DEFAULT 0, judged TEXT,
  refused TEXT, body TEXT, error TEXT, not_before_s REAL NOT NULL DEFAULT 0, created_s REAL NOT NULL,
  ended_s REAL) STRICT;
CREATE INDEX IF NOT EXISTS pipelines_at_work ON pipelines (number) WHERE standing <> 'ended';
CREATE INDEX IF NOT EXISTS pipelines_of_task ON pipelines (task_id, number);
CREATE INDEX IF NOT EXISTS pipelines_of_session ON pipelines (session_id, number);
CREATE TABLE IF NOT EXISTS attempts (
  pipeline_id TEXT NOT NULL REFERENCES pipelines (pipeline_id), attempt INTEGER NOT NULL, pid INTEGER, born TEXT,
  started_s REAL NOT NULL, ended_s REAL, exit INTEGER, PRIMARY KEY (pipeline_id, attempt)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cards (
  number INTEGER PRIMARY KEY AUTOINCREMENT, question_id TEXT NOT NULL UNIQUE,
  pipeline_id TEXT NOT NULL REFERENCES pipelines (pipeline_id), task_id TEXT NOT NULL, tool_call_id TEXT NOT NULL,
  digest TEXT NOT NULL, standing TEXT NOT NULL, waiting INTEGER NOT NULL DEFAULT 0, replied INTEGER NOT NULL DEFAULT 0,
  stream_id TEXT NOT NULL, owner TEXT NOT NULL, user TEXT, quote TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS cards_of_pipeline ON cards (pipeline_id, number);
CREATE INDEX IF NOT EXISTS cards_by_owner ON cards (stream_id, owner, standing, waiting, number);
CREATE INDEX IF NOT EXISTS cards_by_user ON cards (stream_id, user, standing, waiting, number);
CREATE INDEX IF NOT EXISTS cards_by_quote ON cards (stream_id, quote, owner, standing, number);
CREATE INDEX IF NOT EXISTS cards_by_quote_of_user ON cards (stream_id, quote, user, standing, number);
CREATE TABLE IF NOT EXISTS replies (
  number INTEGER PRIMARY KEY AUTOINCREMENT, reply_id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, question_id TEXT,
  pipeline_id TEXT, message TEXT NOT NULL, kept INTEGER NOT NULL DEFAULT 0, answer TEXT NOT NULL,
  at_s REAL NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS replies_to ON replies (question_id, number);
CREATE INDEX IF NOT EXISTS replies_kept ON replies (pipeline_id, number) WHERE kept = 1;
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, type TEXT NOT NULL, data TEXT NOT NULL,
  at_s REAL NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS events_of_session ON events (session_id, number);
"""

"""Runs recorded pipelines again from what their session holds, without network, keys or side effects."""

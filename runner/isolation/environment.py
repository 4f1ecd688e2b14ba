"""The environment that tools start with: a short list of names that are known to be harmless. Pure.

Refuses everything else, so that no credential reaches a tool because nobody thought of its name. Proxy variables are
left out on purpose: their URLs often carry a password.
"""

from collections.abc import Collection, Iterable, Mapping

ALLOWED = frozenset(
    {
        "PATH",
        "LANG",
        "LANGUAGE",
        "TZ",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "SOURCE_DATE_EPOCH",
    }
)
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


LOADER_NAMES = frozenset({"BASH_ENV", "ENV", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH"})
LOADER_PREFIXES = ("LD_", "BASH_FUNC_", "MALLOC_")


def loader_variables(names: Iterable[str]) -> list[str]:
    """Those that change how programs are loaded: they would act on the confinement's own programs, before the tool."""
    return sorted(name for name in names if name in LOADER_NAMES or name.startswith(LOADER_PREFIXES))


def tool_environment(
    environ: Mapping[str, str],
    *,
    home: str,
    temporary: str,
    extra: Mapping[str, str],
    secret_values: Collection[str] = (),
) -> dict[str, str]:
    """What of the runner's environment a tool gets, its own folders, and what this command needs beside (`extra`).

    A variable that holds a secret's value is left out, whatever its name; `extra` is taken as given, because a stdio
    MCP server gets its secrets that way.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if (name in ALLOWED or name.startswith("LC_")) and not any(secret in value for secret in secret_values)
    }
    kept.setdefault("PATH", DEFAULT_PATH)
    kept.setdefault("LANG", "C.UTF-8")
    kept |= {"HOME": home, "TMPDIR": temporary, "SHELL": "/bin/bash", "TERM": "dumb", "USER": "tool", "LOGNAME": "tool"}
    return kept | dict(extra)

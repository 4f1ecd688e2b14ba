"""Builds the botocore client that `S3Store` uses, quickly and with settings that S3-compatible servers
agree with.

Start-up is a feature of a process that lives for one run: `boto3.client` spends most of its time on listing
every service's folder and on parsing JSON with the slow parser. So the session is botocore's own, told that
only the few services exist which S3 and its credentials need. Nothing heavy is imported before
`build_client` runs.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

AddressingStyle = Literal["auto", "path", "virtual"]

# What S3 needs, and what botocore's credential chain may call (role, web identity, single sign-on, login).
_SERVICES = ["s3", "signin", "sso", "sso-oidc", "sts"]


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """Given credentials. None of them shows up in `repr`."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach a bucket. Where `credentials` is None, boto3's own chain applies (environment, files,
    role…).

    A call takes at most `attempts` times the timeouts (seconds) plus the pauses of botocore's standard
    retries.
    """

    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    addressing_style: AddressingStyle | None = None
    """None: `path` with an endpoint of its own, which every compatible server takes, else botocore's
    choice.
    """
    credentials: S3Credentials | None = field(default=None, repr=False)
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 30.0
    attempts: int = 4


def build_client(settings: S3Settings) -> Any:
    """A botocore S3 client. Raises botocore's errors; the caller translates them."""
    import botocore.session

    session: Any = botocore.session.Session()
    session.register_component("data_loader", _loader(session))
    region = settings.region or session.get_config_variable("region")
    if region is None and settings.endpoint_url is not None:
        region = "us-east-1"  # a compatible server needs some region in the signature; this is the customary one
    credentials = settings.credentials
    client = session.create_client(
        "s3",
        region_name=region,
        endpoint_url=settings.endpoint_url,
        aws_access_key_id=credentials.access_key_id if credentials else None,
        aws_secret_access_key=credentials.secret_access_key if credentials else None,
        aws_session_token=credentials.session_token if credentials else None,
        config=_config(settings),
    )
    _without_expect_header(client)
    return client


def _config(settings: S3Settings) -> Any:
    from botocore.config import Config

    style = settings.addressing_style or ("path" if settings.endpoint_url else "auto")
    return Config(
        signature_version="s3v4",
        s3={"addressing_style": style},
        # Checksum trailers are refused by some servers and stored as content by others. Bodies are signed,
        # and what is restored is checked by its own sha256.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"mode": "standard", "total_max_attempts": settings.attempts},
        connect_timeout=settings.connect_timeout_s,
        read_timeout=settings.read_timeout_s,
        tcp_keepalive=True,
        max_pool_connections=16,
    )


def _loader(session: Any) -> Any:
    """botocore's loader of service descriptions: the same files, a short list of services, a quick parser."""
    import msgspec
    from botocore.loaders import JSONFileLoader, Loader

    class Files(JSONFileLoader):
        def load_file(self, file_path: str) -> Any:
            plain = Path(f"{file_path}.json")
            if plain.is_file():
                return msgspec.json.decode(plain.read_bytes())
            packed = Path(f"{file_path}.json.gz")
            if packed.is_file():
                import gzip

                return msgspec.json.decode(gzip.decompress(packed.read_bytes()))
            return None

    class FewServices(Loader):
        def list_available_services(self, type_name: str) -> list[str]:
            del type_name
            return list(_SERVICES)

    extra = session.get_config_variable("data_path")
    return FewServices(extra_search_paths=[str(extra)] if extra else None, file_loader=Files())


def _without_expect_header(client: Any) -> None:
    """Drop `Expect: 100-continue`: it costs every small write a round trip more.

    botocore has no setting for it. Its handler is taken off if it is where it has been for years; the
    header is taken out of the request in any case, and if that were in vain, only the round trip would be
    back.
    """
    import botocore.handlers

    handler = getattr(botocore.handlers, "add_expect_header", None)
    if handler is not None:
        client.meta.events.unregister("before-call.s3", handler)

    def drop(request: Any, **_: Any) -> None:
        request.headers.pop("Expect", None)

    client.meta.events.register("before-send.s3", drop)

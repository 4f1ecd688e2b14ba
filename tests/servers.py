"""Real S3 servers on loopback for the tests: moto in this process, SeaweedFS as a child process.

Both are started once per session, on free ports, and end with it. Import the fixtures into a `conftest.py`:
`from tests.servers import moto_server, seaweed_server`.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkpoint.store.s3_client import S3Credentials, S3Settings, build_client
from checkpoint.store.s3_store import S3Store

_READY_S = 60.0
_STARTS = 3
_ROLES = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class S3Server:
    """A running server. It accepts these credentials, and only these if it checks any."""

    endpoint_url: str
    credentials: S3Credentials
    region: str = "us-east-1"

    def settings(self, bucket: str, prefix: str = "") -> S3Settings:
        return S3Settings(
            bucket=bucket,
            prefix=prefix,
            endpoint_url=self.endpoint_url,
            region=self.region,
            credentials=self.credentials,
        )

    def client(self) -> Any:
        return build_client(self.settings("any"))

    def new_bucket(self) -> str:
        """A bucket that no other test uses."""
        bucket = f"test-{secrets.token_hex(8)}"
        self.client().create_bucket(Bucket=bucket)
        return bucket

    def new_store(self) -> S3Store:
        """An empty store: a prefix of its own in a bucket that the tests share."""
        client = self.client()
        if not any(bucket["Name"] == "shared" for bucket in client.list_buckets()["Buckets"]):
            client.create_bucket(Bucket="shared")
        return S3Store(self.settings("shared", f"tests/{secrets.token_hex(8)}"))


@pytest.fixture(scope="session")
def moto_server() -> Iterator[S3Server]:
    """moto: quick, takes any credentials."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield S3Server(f"http://{host}:{port}", _credentials())
    server.stop()


@pytest.fixture(scope="session")
def seaweed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS: an independent implementation that checks signatures."""
    with running_seaweed(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@contextmanager
def running_seaweed(folder: Path) -> Generator[S3Server]:
    """The same for a program that is no test. `folder` is the server's own."""
    process, server = _started_seaweed(folder)
    try:
        yield server
    finally:
        _end(process)


def _started_seaweed(folders: Path) -> tuple[subprocess.Popen[bytes], S3Server]:
    credentials = _credentials()
    for number in range(_STARTS):  # another process may take a port between its choice and its use
        folder = folders / f"seaweed-{number}"
        folder.mkdir()
        ports = _free_ports(2 * len(_ROLES))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                _seaweed_command(folder, ports, credentials),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        server = S3Server(f"http://127.0.0.1:{ports[3]}", credentials)
        if _becomes_ready(process, server):
            return process, server
        _end(process)
    raise RuntimeError("SeaweedFS did not start")


def _seaweed_command(folder: Path, ports: list[int], credentials: S3Credentials) -> list[str]:
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": credentials.access_key_id, "secretKey": credentials.secret_access_key}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    (folder / "identities.json").write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    chosen = [f"-{role}.port={ports[n]}" for n, role in enumerate(_ROLES)]
    chosen += [f"-{role}.port.grpc={ports[len(_ROLES) + n]}" for n, role in enumerate(_ROLES)]
    return [
        str(Path(sys.executable).with_name("weed")),
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-dir=data",
        "-filer",
        "-s3",
        *chosen,
        "-s3.config=identities.json",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.autoCreateBucket=false",
        f"-s3.localSocket={folder / 's3.sock'}",
        f"-filer.localSocket={folder / 'filer.sock'}",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=128",
        "-master.electionTimeout=1s",
        "-volume.max=200",
        "-volume.preStopSeconds=0",
    ]


def _becomes_ready(process: subprocess.Popen[bytes], server: S3Server) -> bool:
    """Wait until an object can be stored: the ports open seconds earlier."""
    deadline = time.monotonic() + _READY_S
    client = server.client()
    while process.poll() is None and time.monotonic() < deadline:
        try:
            bucket = f"ready-{secrets.token_hex(4)}"
            client.create_bucket(Bucket=bucket)
            client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
        except _errors_of_botocore():
            time.sleep(0.1)  # there is no event to wait for: the server is another program
        else:
            return True
    return False


def _errors_of_botocore() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=20)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def _credentials() -> S3Credentials:
    return S3Credentials(f"AK{secrets.token_hex(8).upper()}", secrets.token_hex(20))

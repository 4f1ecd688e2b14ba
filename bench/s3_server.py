"""A moto S3 server as a process of its own: prints its address, serves until it is terminated."""

import threading
from importlib import import_module
from typing import Any

from moto.server import ThreadedMotoServer


def main() -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    boto3: Any = import_module("boto3")  # it has no types
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="bench")
    client.put_object(Bucket="bench", Key="small", Body=b"x" * 1024)
    print(endpoint, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

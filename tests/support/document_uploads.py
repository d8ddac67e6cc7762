"""What a caller of a retriever's routes for documents does: sends files, and waits until they are indexed."""

import time

ADMIN = {"Authorization": "Bearer secret"}


def upload(client, index, *files, headers=ADMIN):
    return client.post(f"/v1/indexes/{index}/documents", files=[("files", file) for file in files], headers=headers)


def settled(client, index):
    """What is told of the index once nothing is to be changed any more."""
    until = time.monotonic() + 100
    while (status := client.get(f"/v1/indexes/{index}").json())["work"]["state"] in {"queued", "running"}:
        assert time.monotonic() < until
        time.sleep(0.1)
    return status

"""A client inside of the process that asks by a name of loopback, as one outside of it does."""

from fastapi.testclient import TestClient

ADDRESS = "http://127.0.0.1"


class LoopbackClient(TestClient):
    def __init__(self, app, **options):
        super().__init__(app, ADDRESS, **options)

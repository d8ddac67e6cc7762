"""A gateway process over paced stand-ins, and Debian's Chromium looking at its page."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import httpx2
import pytest
from live import live
from playwright.sync_api import sync_playwright
from web_stand_ins import Paced, web_policy, web_retriever

NOWHERE = "http://127.0.0.1:9"
PORTS = range(18_700, 18_800)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def free_port():
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no port is free")


def wait_until_ready(url, process):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        assert process.poll() is None, "the gateway ended"
        try:
            if httpx2.get(f"{url}/readyz").status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the gateway did not become ready")


@contextmanager
def gateway_process(policy_url, retriever_url, *, port=None, **settings):
    """Yields its address; the process ends with the block."""
    port = port or free_port()
    own = {"GATEWAY_PORT": str(port), "POLICY_BASE_URL": f"{policy_url}/v1", "RETRIEVER_URL": retriever_url}
    own |= {"REDIS_URL": "", "TRAINER_URL": NOWHERE}
    command = [sys.executable, "-m", "gateway"]
    with subprocess.Popen(command, env=os.environ | own | settings, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url, process)
            yield url
        finally:
            process.kill()


@pytest.fixture(scope="session")
def upstream_urls():
    policy = Paced(web_policy(), "/v1/completions", before_s=0.1, between_s=0.001)
    retriever = Paced(web_retriever(), "/v1/retrieve", before_s=1.2)
    with live(policy) as policy_server, live(retriever) as retriever_server:
        yield policy_server.url, retriever_server.url


@pytest.fixture(scope="session")
def gateway_url(upstream_urls):
    with gateway_process(*upstream_urls) as url:
        yield url


@pytest.fixture
def second_gateway(upstream_urls):
    """`second_gateway(port=…, **settings)` is a context: a gateway of its own."""
    return partial(gateway_process, *upstream_urls)


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium")
    assert chromium, "these tests look at the page with Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser, gateway_url):
    """`new_page(width=…, **options)` opens the page in a context of its own; an error in its script or console fails the test."""
    contexts, faults = [], []

    def open_page(path="/", *, width=1280, height=900, expect_ready=True, **options):
        context = browser.new_context(base_url=gateway_url, viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if "Content Security Policy" in message.text else None)
        page.goto(path)
        if expect_ready:
            page.get_by_role("textbox", name="Question").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults

import socket
from pathlib import Path

import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from servicekit.preflight import require_file, require_port, require_writable
from servicekit.settings import ServiceSettings


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="THING_")
    port: int = Field(default=9999, ge=1, le=65535)


def test_a_port_that_is_taken_is_named_with_the_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit, match=f"Port {port} on 127.0.0.1 is taken .* set THING_PORT"):
            require_port(Settings(port=port))
    require_port(Settings(port=port))


def test_an_address_of_another_host_is_named():
    with pytest.raises(SystemExit, match=r"Cannot listen on 203\.0\.113\.1:9999: .* Set THING_HOST"):
        require_port(Settings(host="203.0.113.1"))


def test_a_folder_is_made_and_left_as_it_was(tmp_path):
    require_writable(tmp_path / "a" / "b", "THING_FOLDER")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("place", ["/proc/parallelsearch", "/dev/null/parallelsearch"])
def test_a_folder_that_cannot_be_written_to_is_named_with_the_setting(place):
    with pytest.raises(SystemExit, match=f"THING_FOLDER: {place} cannot be written to"):
        require_writable(Path(place), "THING_FOLDER")


def test_a_folder_in_a_file_s_place_is_named(tmp_path):
    with pytest.raises(SystemExit, match=f"THING: {tmp_path} is a folder"):
        require_file(tmp_path, "THING")
    require_file(tmp_path / "new" / "file", "THING")
    assert not (tmp_path / "new" / "file").exists()

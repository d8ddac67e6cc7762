import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from servicekit.settings import ServiceSettings, load


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="THING_")
    port: int = Field(default=9999, ge=1, le=65535)
    wait_s: float = Field(default=1.0, gt=0)


def test_settings_come_from_the_environment_and_bind_to_loopback_by_default(monkeypatch):
    monkeypatch.setenv("THING_PORT", "1234")
    monkeypatch.setenv("ADMIN_TOKEN", "t")
    settings = load(Settings)
    assert (settings.host, settings.port) == ("127.0.0.1", 1234)
    assert settings.admin_token.get_secret_value() == "t"
    assert "'t'" not in repr(settings)


def test_a_wrong_variable_is_named_in_one_line(monkeypatch):
    monkeypatch.setenv("THING_PORT", "99999")
    with pytest.raises(SystemExit, match="THING_PORT: Input should be less than or equal to 65535"):
        load(Settings)


@pytest.mark.parametrize("name", ["WAIT_S", "SHUTDOWN_GRACE_S"])
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999"])
def test_a_number_of_seconds_is_a_finite_one(monkeypatch, name, value):
    monkeypatch.setenv(f"THING_{name}", value)
    with pytest.raises(SystemExit, match=f"THING_{name}: "):
        load(Settings)


@pytest.mark.parametrize("token", ["schlüssel", "two\nlines", " spaced ", "tab\there", "\x7f"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_repeated(monkeypatch, token):
    monkeypatch.setenv("ADMIN_TOKEN", token)
    with pytest.raises(SystemExit, match="ADMIN_TOKEN: only printable ASCII") as refused:
        load(Settings)
    assert token not in str(refused.value)

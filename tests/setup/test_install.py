"""What setup decides before it runs anything: pip's settings in uv's words, and whether an environment is whole."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

OF_ALL = {"VIRTUAL_ENV", "UV_INDEX_STRATEGY", "UV_LINK_MODE", "LC_ALL"}
REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"


def load(name):
    spec = importlib.util.spec_from_file_location(name, REQUIREMENTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pip_settings():
    return load("pip_settings")


@pytest.fixture(scope="module")
def install(pip_settings):
    return load("install")


def words(pip_settings, listing, environ=None):
    env = pip_settings.uv_environment(pip_settings.parse(listing), {"UV_CACHE_DIR": "/tmp"} | (environ or {}), Path("/venv"))
    return {name: value for name, value in env.items() if name not in OF_ALL}


def test_settings_that_pip_cannot_read_end_the_setup_in_its_words(tmp_path):
    broken = tmp_path / "pip.conf"
    broken.write_text("no section\n")
    program = f"import sys; sys.path.insert(0, {str(REQUIREMENTS)!r}); import pip_settings; pip_settings.read(sys.executable)"
    environ = os.environ | {"PIP_CONFIG_FILE": str(broken)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert str(broken) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_environment_goes_over_install_and_install_over_global(pip_settings):
    listing = ":env:.index-url='https://c.test'\ninstall.index-url='https://b.test'\nglobal.index-url='https://a.test'\n"
    assert pip_settings.parse(listing) == {"index-url": ["https://c.test"]}
    assert pip_settings.parse(listing.partition("\n")[2]) == {"index-url": ["https://b.test"]}


def test_settings_of_other_commands_and_empty_values_do_not_count(pip_settings):
    listing = "download.index-url='https://other.test'\n:env:.find-links=''\nglobal.find-links='https://links.test'\n"
    assert pip_settings.parse(listing) == {"find-links": ["https://links.test"]}


def test_several_links_on_lines_and_with_spaces_are_all_kept(pip_settings, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two words"
    one.mkdir()
    two.mkdir()
    listing = f"global.find-links='\\n{one}\\n{two.as_uri()} https://links.test/simple'\n"
    assert words(pip_settings, listing)["UV_FIND_LINKS"] == f"{one},{two.as_uri()},https://links.test/simple"


def test_a_folder_that_is_not_there_is_left_out(pip_settings, tmp_path):
    listing = f"global.find-links='{tmp_path / 'gone'}'\nglobal.extra-index-url='file:///gone/simple https://more.test'\n"
    assert "UV_FIND_LINKS" not in words(pip_settings, listing)
    assert words(pip_settings, listing)["UV_INDEX"] == "https://more.test"


def test_certificates_of_pip_go_over_the_general_ones(pip_settings, tmp_path):
    listing = "global.cert='/pip.pem'\n"
    assert words(pip_settings, listing, {"SSL_CERT_FILE": "/other.pem"})["SSL_CERT_FILE"] == "/pip.pem"
    assert words(pip_settings, "", {"REQUESTS_CA_BUNDLE": "/requests.pem"})["SSL_CERT_FILE"] == "/requests.pem"
    assert words(pip_settings, f"global.cert='{tmp_path}'\n")["SSL_CERT_DIR"] == str(tmp_path)


def test_without_any_certificate_the_systems_own_are_used(pip_settings):
    assert words(pip_settings, "")["UV_SYSTEM_CERTS"] == "true"
    assert "UV_SYSTEM_CERTS" not in words(pip_settings, "", {"SSL_CERT_FILE": "/own.pem"})


def test_proxy_patience_and_trusted_hosts_are_handed_on(pip_settings):
    listing = (
        "global.proxy='http://proxy.test:3128'\nglobal.timeout='2.5'\nglobal.retries='7'\n"
        "global.trusted-host='a.test\\nb.test'\nglobal.no-index='true'\nglobal.no-cache-dir='1'\n"
    )
    env = words(pip_settings, listing)
    assert env["HTTPS_PROXY"] == env["HTTP_PROXY"] == env["ALL_PROXY"] == "http://proxy.test:3128"
    assert (env["UV_HTTP_TIMEOUT"], env["UV_HTTP_RETRIES"]) == ("2", "7")
    assert env["UV_INSECURE_HOST"] == "a.test b.test"
    assert (env["UV_NO_INDEX"], env["UV_NO_CACHE"]) == ("1", "1")


def test_settings_made_for_uv_itself_stay(pip_settings):
    environ = {"UV_DEFAULT_INDEX": "https://uv.test"}
    assert words(pip_settings, "global.index-url='https://pip.test'\n", environ)["UV_DEFAULT_INDEX"] == "https://uv.test"


def test_bytecode_is_written_whatever_the_callers_environment_says(pip_settings):
    assert "PYTHONDONTWRITEBYTECODE" not in words(pip_settings, "", {"PYTHONDONTWRITEBYTECODE": "1"})


def test_uv_is_told_of_paths_in_utf_8_whatever_the_locale(pip_settings):
    """It asks Python for them, with -I that passes PYTHONUTF8 by, and takes the answer for UTF-8."""
    assert pip_settings.uv_environment({}, {"LC_ALL": "tr_TR.ISO-8859-9"}, Path("/venv"))["LC_ALL"] == "C.UTF-8"


@pytest.mark.parametrize("name", ["UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_TARGET", "UV_PREFIX", "UV_REQUIRE_HASHES", "PYTHONHOME"])
def test_what_a_shell_has_set_for_other_environments_does_not_reach_this_one(pip_settings, name):
    assert name not in words(pip_settings, "", {name: "1"})


@pytest.mark.parametrize("setting", ["system = true", "python = '/nowhere/python3.11'"])
def test_what_uvs_own_files_say_of_other_environments_does_not_reach_this_one(install, pip_settings, tmp_path, setting):
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text(f"[pip]\n{setting}\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    env = pip_settings.uv_environment({}, environ, Path(sys.prefix))
    command = install.uv_install(Path(sys.executable).with_name("uv"), Path(sys.executable))
    there = f"pytest=={pytest.__version__}"
    done = subprocess.run([*command, "--dry-run", "--offline", there], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("environ", "cached"),
    [
        ({"HOME": "/dev/null/home"}, False),
        ({"HOME": ""}, False),
        ({}, False),
        ({"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/tmp/not/there/yet"}, True),
        ({"HOME": "/tmp", "UV_CACHE_DIR": "/dev/null/cache"}, False),
        ({"HOME": "/tmp"}, True),
    ],
)
def test_a_home_that_cannot_be_written_to_costs_the_cache_and_nothing_else(pip_settings, environ, cached):
    assert ("UV_NO_CACHE" not in pip_settings.uv_environment({}, environ, Path("/venv"))) == cached


def test_make_keeps_what_callers_have_set_for_their_own_python_from_ours():
    environ = os.environ | {"PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere/else"}
    command = ["make", "-s", "--eval", "shown: python; @env", "shown"]
    done = subprocess.run(command, cwd=REQUIREMENTS.parent, env=environ, capture_output=True, text=True, check=True)
    assert "/nowhere" not in done.stdout


def test_the_project_is_found_below_letters_that_the_locale_does_not_have(install, tmp_path):
    root = tmp_path / "Übung mit Blanks"
    (root / "packages").mkdir(parents=True)
    (root / "packages" / "found.py").touch()
    venv = root / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python3.*/site-packages")
    (packages / "parallelsearch.pth").write_text(str(root / "packages"), encoding="utf-8")
    install.spell_in_ascii(venv)
    install.spell_in_ascii(venv)
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    subprocess.run([venv / "bin" / "python", "-c", "import found"], env=environ, check=True)


def make_environment(root, version, *, whole=True):
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").touch()
    record = root / "lib" / f"python{version}" / "site-packages" / "pip-23.0.dist-info" / "RECORD"
    record.parent.mkdir(parents=True)
    if whole:
        record.touch()
    return root


def test_an_environment_says_its_version_only_when_it_is_whole(install, tmp_path):
    assert install.venv_version(make_environment(tmp_path / "whole", "3.12")) == (3, 12)
    assert install.venv_version(make_environment(tmp_path / "old", "3.9")) not in install.SUPPORTED
    assert install.venv_version(make_environment(tmp_path / "cut", "3.11", whole=False)) is None
    assert install.venv_version(tmp_path / "none") is None
    gone = make_environment(tmp_path / "gone", "3.11")
    (gone / "bin" / "python").unlink()
    (gone / "bin" / "python").symlink_to("/nowhere/python3.11")
    assert install.venv_version(gone) is None


def test_a_longer_list_holds_the_shorter_ones(install):
    def names(name):
        lines = (REQUIREMENTS / f"{name}.txt").read_text().splitlines()
        return {line.partition(" ")[0] for line in lines if "==" in line}

    for name, holders in install.HELD_BY.items():
        for holder in holders:
            assert names(name) <= names(holder), f"{holder}.txt lacks pins of {name}.txt"


def test_the_lists_record_no_place_of_download(install):
    for path in REQUIREMENTS.glob("*.txt"):
        assert "://" not in path.read_text(), path.name

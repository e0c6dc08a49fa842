"""`hetune keys` beside a service that runs."""

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from tests.service._serving import make_service, serving

from hetune.clients import Client
from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.server.app import application
from hetune.variants import errors

SECRET = re.compile(r"hetune_[0-9a-f]{16}_[0-9a-f]{64}\n")


@pytest.fixture
def keys(hetune, tmp_path):
    """Calls `hetune keys` on a folder."""
    return lambda *arguments: hetune("keys", *arguments, "--data", tmp_path)


def test_the_life_of_a_key(keys, tmp_path):
    app = application(make_service(tmp_path), key="sesame")
    with serving(app) as url:
        made = keys("create", "--name", "ci", "--scope", "infer", "--scope", "profile")
        assert SECRET.fullmatch(made.stdout), "only the key, so that a shell can keep it"
        assert "shown this once" in made.stderr
        secret = made.stdout.strip()
        with Client(url, key=secret) as client:
            assert client.models() == {"m": (1,)}
            assert client.jobs.list().jobs == ()
            with pytest.raises(errors.ScopeError, match=r"ci is for infer and profile: .* admin"):
                client.delete_model("m", 1)
            listed = keys("list")
            assert re.search(r"ci .*infer, profile .*never +good", listed.stdout)
            assert secret not in listed.stdout
            assert keys("revoke", "ci").stdout.startswith("revoked ci (")
            with pytest.raises(errors.AccessError, match="revoked"):
                client.models()
    assert re.search(r"never +revoked on \d{4}-", keys("list").stdout)


@pytest.mark.parametrize(
    ("text", "lasts"),
    [
        ("15m", timedelta(minutes=15)),
        ("12h", timedelta(hours=12)),
        ("90d", timedelta(days=90)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_lifetimes(keys, tmp_path, text, lasts):
    before = datetime.now(UTC)
    assert keys("create", "--name", "a", "--scope", "infer", "--expires", text).exit_code == 0
    [key] = Keys(tmp_path / FILE).all()
    assert before <= key.expires - lasts <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "--name", "b", "--scope", "infer", "--expires", "90"), "give e.g. 90d"),
        (("create", "--name", "b", "--scope", "infer", "--expires", "0d"), "already"),
        (("create", "--name", "b", "--scope", "infer", "--expires", "999999w"), "too far"),
        (("create", "--name", "b", "--scope", "everything"), "everything"),
        (("create", "--name", "b"), "--scope"),
        (("create", "--name", "a", "--scope", "infer"), "there is a key 'a'"),
        (("create", "--name", "a b", "--scope", "infer"), "no name"),
        (("revoke", "b"), "hetune keys list"),
    ],
    ids=range(8),
)
def test_bad_input(keys, arguments, message):
    keys("create", "--name", "a", "--scope", "infer")
    result = keys(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "1 key in" in keys("list").stdout


def test_the_first_key_says_that_it_closes_the_service(keys):
    first, second = (keys("create", "--name", name, "--scope", "infer") for name in "ab")
    assert "lets nobody in without a key from now on" in first.stderr
    assert "from now on" not in second.stderr
    assert first.stdout.count("\n") == second.stdout.count("\n") == 1


def test_a_folder_without_keys(keys, tmp_path):
    assert keys("list").stdout == f"0 keys in {tmp_path / FILE}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_that_of_serve_by_default(hetune, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    hetune("keys", "create", "--name", "a", "--scope", "admin")
    assert (tmp_path / "hetune" / "service" / FILE).is_file()


def test_a_client_is_told_what_it_may_not(keys, tmp_path):
    secret = keys("create", "--name", "a", "--scope", "metrics").stdout.strip()
    with serving(application(make_service(tmp_path))) as url:
        headers = {"Authorization": f"Bearer {secret}"}
        assert httpx.get(f"{url}/metrics", headers=headers, trust_env=False, timeout=60).is_success
        with Client(url, key=secret) as client:
            assert client.ready()
            with pytest.raises(errors.ScopeError, match="the key a is for metrics"):
                client.graphs()

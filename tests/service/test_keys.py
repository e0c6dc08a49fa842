"""Keys in a file: made, found, revoked, expired; and what becomes of a file that is none."""

import os
import re
import threading
from datetime import UTC, datetime, timedelta

import pytest

from hetune.service.core.keys.access import Access
from hetune.service.core.keys.keys import Keys
from hetune.service.core.keys.scopes import Caller, KeyScope
from hetune.variants import errors

NOW = datetime(2026, 1, 31, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "keys.json"


@pytest.fixture
def keys(path):
    return Keys(path, lambda: NOW)


def test_a_key_is_found_by_its_secret_alone(keys, path):
    made, secret = keys.create("ci", {KeyScope.profile, KeyScope.infer})
    assert re.fullmatch(rf"hetune_{made.id}_[0-9a-f]{{64}}", secret)
    assert (made.name, made.scopes) == ("ci", (KeyScope.infer, KeyScope.profile))
    assert (made.created, made.expires, made.revoked) == (NOW, None, None)
    assert keys.find(secret) == Keys(path).find(secret) == made
    last = "0" if secret[-1] != "0" else "1"
    for wrong in ("", made.id, made.digest, secret[:-1], secret[:-1] + last, f"{secret}\n", "é"):
        assert keys.find(wrong) is None


def test_secrets_are_not_kept_and_nobody_else_reads_the_file(keys, path):
    made, secret = keys.create("ci", [KeyScope.admin])
    text = path.read_text()
    assert secret not in text
    assert secret.rpartition("_")[2] not in text
    assert made.digest in text
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_another_process_changes_is_seen_at_once(keys, path):
    assert keys.all() == ()
    other = Keys(path)
    made, secret = other.create("one", [KeyScope.infer])
    assert keys.find(secret) == made
    other.create("two", [KeyScope.infer])
    assert [key.name for key in keys.all()] == ["one", "two"]
    revoked = other.revoke("one")
    assert keys.find(secret) == revoked
    path.unlink()
    assert keys.find(secret) is None


def test_a_file_that_is_as_it_was_is_not_read_again(keys, path, monkeypatch):
    _, secret = keys.create("one", [KeyScope.infer])
    assert keys.find(secret)
    monkeypatch.setattr(type(path), "open", lambda *_: pytest.fail("it is read"))
    assert keys.find(secret)


def test_keys_made_at_the_same_time_are_all_there(path):
    def make(number):
        Keys(path).create(f"k{number}", [KeyScope.infer])

    threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.name for key in Keys(path).all()} == {f"k{n}" for n in range(8)}
    assert {file.name for file in path.parent.iterdir()} <= {"keys.json", "keys.lock"}


@pytest.mark.parametrize(
    ("after", "trouble"),
    [
        (timedelta(0), None),
        (DAY - timedelta(microseconds=1), None),
        (DAY, "expired on 2026-02-01 00:00 UTC"),
        (400 * DAY, "expired on 2026-02-01 00:00 UTC"),
    ],
)
def test_keys_expire(keys, after, trouble):
    made, _ = keys.create("ci", [KeyScope.infer], DAY)
    assert made.expires == NOW + DAY
    assert made.trouble(NOW + after) == trouble


def test_a_revoked_key_is_revoked_whenever_it_would_have_expired(keys):
    made, _ = keys.create("ci", [KeyScope.infer], DAY)
    assert keys.revoke(made.id).trouble(NOW) == "was revoked on 2026-01-31 00:00 UTC"
    assert keys.all()[0].trouble(NOW + 2 * DAY) == "was revoked on 2026-01-31 00:00 UTC"
    with pytest.raises(errors.NotFoundError, match="could be revoked"):
        keys.revoke("ci")


def test_a_name_is_free_again_once_its_key_is_revoked(keys):
    keys.create("ci", [KeyScope.infer])
    with pytest.raises(errors.ConflictError, match="'ci'"):
        keys.create("ci", [KeyScope.admin])
    keys.revoke("ci")
    keys.create("ci", [KeyScope.admin])
    assert [key.scopes for key in keys.all()] == [(KeyScope.infer,), (KeyScope.admin,)]


@pytest.mark.parametrize(
    ("name", "scopes", "lasts", "message"),
    [
        ("", [KeyScope.infer], None, "no name"),
        ("a b", [KeyScope.infer], None, "no name"),
        ("a\n", [KeyScope.infer], None, "no name"),
        ("-a", [KeyScope.infer], None, "no name"),
        ("a" * 65, [KeyScope.infer], None, "no name"),
        ("root", [KeyScope.infer], None, "not 'root'"),
        ("a", [], None, "infer, profile, metrics, admin"),
        ("a", [KeyScope.infer], timedelta(0), "already"),
        ("a", [KeyScope.infer], timedelta.max, "too far"),
    ],
    ids=range(9),
)
def test_keys_that_are_not_made(keys, path, name, scopes, lasts, message):
    with pytest.raises(errors.InputError, match=message):
        keys.create(name, scopes, lasts)
    assert not path.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"version": 2, "keys": []}', b'{"keys": [{"id": "1"}]}', b"\xff"],
    ids=range(6),
)
def test_a_damaged_file_lets_nobody_in_and_is_not_written_over(keys, path, content):
    _, secret = keys.create("ci", [KeyScope.infer])
    path.write_bytes(content)
    for use in (keys.all, lambda: keys.find(secret), lambda: keys.create("new", [KeyScope.infer])):
        with pytest.raises(errors.FolderError, match=r"keys\.json.*restore it"):
            use()
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(errors.FolderError, match="cannot write the keys"):
        Keys(tmp_path / "file" / "keys.json").create("ci", [KeyScope.infer])
    (tmp_path / "keys.json").mkdir()
    with pytest.raises(errors.FolderError, match="cannot read the keys"):
        Keys(tmp_path / "keys.json").all()


def test_keys_are_there_whole_or_not_at_all(keys, path, monkeypatch):
    keys.create("ci", [KeyScope.infer])
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.FolderError, match="No space left"):
        keys.revoke("ci")
    assert path.read_bytes() == before


# Who is let in.


def test_without_any_key_everybody_is_let_in(keys):
    assert Access(keys).is_open
    assert not Access(keys, "sesame").is_open


def test_what_was_closed_stays_closed(keys, path):
    access = Access(keys)
    keys.create("ci", [KeyScope.infer])
    assert not access.is_open
    keys.revoke("ci")
    assert not access.is_open
    assert not Access(keys).is_open
    path.unlink()
    assert not access.is_open


def test_the_root_key_needs_no_file(keys, path):
    path.parent.mkdir()
    path.write_bytes(b"damaged")
    assert Access(keys, "sesame").caller("sesame") == Caller("root", frozenset({KeyScope.admin}))
    with pytest.raises(errors.FolderError):
        Access(keys)


@pytest.mark.parametrize(
    "root", ["", "ключ", "sesame\n", "sésame", " sesame", "sesame ", "ses\tame"]
)
def test_root_keys_that_no_header_can_hold(keys, root):
    with pytest.raises(errors.InputError, match="header") as caught:
        Access(keys, root)
    assert "same" not in str(caught.value)


INFER, PROFILE, ADMIN = KeyScope.infer, KeyScope.profile, KeyScope.admin


@pytest.mark.parametrize(
    ("scopes", "needs", "fits"),
    [
        ({INFER}, [{INFER}], True),
        ({INFER}, [{INFER, PROFILE}], True),
        ({INFER}, [{PROFILE}], False),
        ({INFER}, [{INFER}, {PROFILE}], False),
        ({INFER, PROFILE}, [{INFER}, {PROFILE}], True),
        ({INFER, PROFILE}, [set()], False),
        ({INFER}, [None], True),
        ({INFER}, [None, set()], False),
        ({ADMIN}, [set(), {PROFILE}], True),
    ],
    ids=range(9),
)
def test_scopes(scopes, needs, fits):
    caller = Caller("ci", frozenset(scopes))
    needs = [None if need is None else frozenset(need) for need in needs]
    if fits:
        caller.check(needs)
    else:
        with pytest.raises(errors.ScopeError, match="the key ci is for infer"):
            caller.check(needs)

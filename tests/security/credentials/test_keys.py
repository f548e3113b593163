"""The keys that credentials are encrypted with: where they are, how they are exchanged."""

import signal
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.errors import SettingError
from toolgate.security.credentials import Keychain, Vault, key_of, key_source
from toolgate.store import Store, make_store

NAMES = [f"user:{name}" for name in ("anna", "ben", "carl", "dora", "emil")]
FIRST, SECOND = "11" * 32, "22" * 32


async def opened(folder: Path) -> Store:
    store = make_store(f"sqlite:///{folder / 'store.db'}")
    await store.open()
    return store


def keychain(store: Store, folder: Path, variables: tuple[str, str] = ("", "")) -> Keychain:
    file = folder / "credentials.key"
    return Keychain(
        store.credentials,
        key_source("file", variables=variables, file=file, store_url="sqlite:///x"),
    )


async def fill(store: Store, keys: Keychain) -> None:
    vault = Vault(store.credentials, keys)
    for name in NAMES:
        await vault.save(key_of("notes", name), {"token": f"secret of {name}"}, {})


async def assert_whole(store: Store, keys: Keychain) -> None:
    vault = Vault(store.credentials, keys)
    for name in NAMES:
        kept = await vault.get(key_of("notes", name))
        assert kept is not None
        assert kept.secret == {"token": f"secret of {name}"}


async def test_what_is_stored_shows_nothing_and_the_key_is_for_this_user_alone(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    await fill(store, keychain(store, tmp_path))
    await store.close()
    everything = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert b"secret of" not in everything
    assert stat.S_IMODE((tmp_path / "credentials.key").stat().st_mode) == 0o600


async def test_a_key_that_others_can_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await fill(store, keychain(store, tmp_path))
    (tmp_path / "credentials.key").chmod(0o644)
    with pytest.raises(SettingError, match=r"can be read by other users.*chmod 600"):
        await assert_whole(store, keychain(store, tmp_path))
    await store.close()


async def test_another_key_than_that_of_the_store_is_named_and_makes_nothing_new(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    await fill(store, keychain(store, tmp_path, (FIRST, "")))
    with pytest.raises(SettingError, match="another key"):
        await assert_whole(store, keychain(store, tmp_path, (SECOND, "")))
    with pytest.raises(SettingError, match="another key"):
        await fill(store, keychain(store, tmp_path, (SECOND, "")))
    await assert_whole(store, keychain(store, tmp_path, (FIRST, "")))
    await store.close()


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, FIRST[:-2]])
async def test_a_variable_that_is_no_key_is_refused_and_not_shown(
    tmp_path: Path, text: str
) -> None:
    store = await opened(tmp_path)
    keys = keychain(store, tmp_path, (text, ""))
    if text:
        with pytest.raises(SettingError, match="64 hex digits") as refused:
            await fill(store, keys)
        assert text not in str(refused.value)
    else:
        await fill(store, keys)  # no variable: the file
    await store.close()


async def test_a_credential_cannot_be_put_in_the_place_of_anothers(tmp_path: Path) -> None:
    """Who can write the database must not act as somebody else with a row that is not theirs."""
    store = await opened(tmp_path)
    keys = keychain(store, tmp_path)
    await fill(store, keys)
    await _swap(store)
    with pytest.raises(SettingError, match="damaged or was moved"):
        await Vault(store.credentials, keys).get(key_of("notes", NAMES[1]))
    await store.close()


async def _swap(store: Store) -> None:
    rows = {row.key.subject: row for row in await store.credentials.select("notes")}
    one, other = rows[NAMES[0]], rows[NAMES[1]]
    stolen = type(one)(key=other.key, key_id=one.key_id, sealed=one.sealed)
    assert await store.credentials.save(stolen)


# Exchanging keys


async def test_exchanging_the_key_leaves_one_and_a_process_that_runs_goes_on(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    running = keychain(store, tmp_path)
    await fill(store, running)
    before = (tmp_path / "credentials.key").read_text(encoding="ascii")

    done = await keychain(store, tmp_path).rotate()

    after = (tmp_path / "credentials.key").read_text(encoding="ascii")
    assert done.credentials == len(NAMES)
    assert len(after.split()) == 1
    assert before.strip() not in after
    await assert_whole(store, running)
    await Vault(store.credentials, running).save(
        key_of("notes", "user:late"), {"token": "late"}, {}
    )
    late = await Vault(store.credentials, keychain(store, tmp_path)).get(
        key_of("notes", "user:late")
    )
    assert late is not None
    await keychain(store, tmp_path).rotate()
    assert len(await store.credentials.keys()) == 2, "keys that nothing needs are forgotten"
    await store.close()


async def test_keys_of_variables_are_exchanged_with_the_old_one_beside(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await fill(store, keychain(store, tmp_path, (FIRST, "")))
    await keychain(store, tmp_path, (SECOND, FIRST)).rotate()
    await assert_whole(store, keychain(store, tmp_path, (SECOND, "")))
    await store.close()


class StoppedError(Exception):
    """The machine stops here."""


async def test_an_exchange_that_stops_anywhere_loses_nothing_and_can_be_begun_again(
    tmp_path: Path,
) -> None:
    """A kill is what happens between any two steps, each of which is whole or not at all."""
    steps: list[str] = []
    store = await opened(tmp_path)
    await fill(store, keychain(store, tmp_path))
    await keychain(store, tmp_path).rotate(step=steps.append)
    assert len(steps) == 5 + len(NAMES)
    for stop_at in range(len(steps)):
        passed = 0

        def stop(_: str, stop_at: int = stop_at) -> None:
            nonlocal passed
            if passed == stop_at:
                raise StoppedError
            passed += 1

        with pytest.raises(StoppedError):
            await keychain(store, tmp_path).rotate(step=stop)
        await assert_whole(store, keychain(store, tmp_path))
    await keychain(store, tmp_path).rotate()
    await assert_whole(store, keychain(store, tmp_path))
    assert len((tmp_path / "credentials.key").read_text(encoding="ascii").split()) == 1
    await store.close()


async def test_a_credential_that_changes_during_an_exchange_stays_as_it_was_written(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    running = Vault(store.credentials, keychain(store, tmp_path))
    await fill(store, keychain(store, tmp_path))
    keys = keychain(store, tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keys.rotate)
        for turn in range(20):
            await running.save(key_of("notes", NAMES[0]), {"token": f"turn {turn}"}, {})
    kept = await Vault(store.credentials, keychain(store, tmp_path)).get(key_of("notes", NAMES[0]))
    assert kept is not None
    assert kept.secret == {"token": "turn 19"}
    await store.close()


KILLED = """
import sys, anyio
from pathlib import Path
from toolgate.security.credentials import Keychain, key_source
from toolgate.store import make_store

async def main() -> None:
    folder = Path(sys.argv[1])
    store = make_store(f"sqlite:///{folder / 'store.db'}")
    await store.open()
    source = key_source(
        "file", variables=("", ""), file=folder / "credentials.key", store_url="sqlite:///x"
    )
    while True:
        await Keychain(store.credentials, source).rotate(step=lambda step: print(step, flush=True))

anyio.run(main)
"""


async def test_kill_9_in_the_middle_of_exchanges_loses_nothing(tmp_path: Path) -> None:
    """The real thing: a process that exchanges keys all the time is killed at different moments."""
    store = await opened(tmp_path)
    await fill(store, keychain(store, tmp_path))
    for after in (1, 4, 9):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(after):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(HANG_S)
        process.stdout.close()
        await assert_whole(store, keychain(store, tmp_path))
    await keychain(store, tmp_path).rotate()
    await assert_whole(store, keychain(store, tmp_path))
    await store.close()

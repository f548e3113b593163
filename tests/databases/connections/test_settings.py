"""`[connections]` in `toolgate.toml`: what is allowed, and that addresses are never shown."""

from pathlib import Path

import pytest

from toolgate.cli.setup._support_archive import Scrubber, configuration
from toolgate.errors import SettingError
from toolgate.settings import ConnectionTable, Settings, load


def read(folder: Path, text: str, **environ: str) -> Settings:
    (folder / "toolgate.toml").write_text(text, encoding="utf-8")
    return load(cwd=folder, environ={"HOME": str(folder), **environ})


def test_a_connection_has_defaults_and_a_path_belongs_to_its_file(tmp_path: Path) -> None:
    found = read(tmp_path, '[connections.shop]\nurl = "sqlite:///data/shop.db"\n').connections

    assert found == {"shop": ConnectionTable(url=f"sqlite:///{tmp_path}/data/shop.db")}
    assert (found["shop"].snapshot_every_minutes, found["shop"].timeout_s) == (60, 20)


def test_a_password_comes_from_the_environment_and_is_shown_nowhere(tmp_path: Path) -> None:
    text = '[connections.shop]\nurl = "postgresql://anna:${env:SHOP}@db/shop?password=pass0word"\n'
    found = read(tmp_path, text, SHOP="s3cret-one")

    assert "s3cret-one" in found.connections["shop"].url
    assert "s3cret" not in repr(found)
    shown = str(configuration(found)["connections"])
    assert "s3cret" not in shown
    assert "pass0word" not in shown
    assert Scrubber((), found)("it is s3cret-one") == "it is ***"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[connections.shop]", "connections.shop.url is not a database URL"),
        ('[connections.shop]\nurl = "s3cret"', "connections.shop.url is not a database URL"),
        ('[connections."a b"]\nurl = "sqlite:///x"', "a connection called 'a b'"),
        ('[connections.shop]\nurl = "sqlite:///x"\ntimeout = 3', "Did you mean 'timeout_s'?"),
        ('[connections.shop]\nurl = "sqlite:///x"\ntimeout_s = 0', "timeout_s is 0"),
        ('[connections.shop]\nurl = "sqlite:///${NO}"', "names the variable NO, which is not set"),
        ("connections = 3", "connections is a whole number"),
    ],
)
def test_what_cannot_be_is_refused_without_the_address(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(SettingError) as raised:
        read(tmp_path, text)

    assert said in str(raised.value)
    assert "s3cret" not in str(raised.value)

"""Tables about credentials and the network, and what is wrong with them."""

from pathlib import Path

import pytest

from toolgate.errors import SettingError
from toolgate.settings import Settings, load

HTTP = '[server.notes]\nurl = "https://notes.example/mcp"\n'
STDIO = '[server.notes]\ncommand = "notes"\n'


def loaded(folder: Path, text: str, **variables: str) -> Settings:
    path = folder / "toolgate.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, environ=variables, cwd=folder)


def test_credentials_of_a_server_are_read_with_variables_and_not_shown(tmp_path: Path) -> None:
    text = HTTP + (
        '[server.notes.credentials]\ntype = "token_exchange"\nclient_id = "gate"\n'
        'client_secret = "${env:SECRET}"\ntoken_url = "https://login.example/token"\n'
    )
    [spec] = loaded(tmp_path, text, SECRET="hidden").servers
    assert (spec.credentials.per, spec.credentials.client_secret) == ("user", "hidden")
    assert "hidden" not in repr(spec)


def test_a_secret_that_is_not_set_disables_the_server_alone(tmp_path: Path) -> None:
    text = HTTP + (
        '[server.notes.credentials]\nissuer = "https://login.example"\n'
        'client_secret = "${env:SECRET}"\n'
    )
    [spec] = loaded(tmp_path, text).servers
    assert not spec.enabled
    assert "SECRET" in spec.problem


def test_certificates_and_proxy_of_a_server_are_paths_and_addresses(tmp_path: Path) -> None:
    text = HTTP + 'proxy = "none"\n[server.notes.tls]\nca = "ca.pem"\ncert = "~/c.pem"\n'
    settings = loaded(tmp_path, text + '[tls]\ncert = "own.pem"\n', HOME=str(tmp_path / "home"))
    options = settings.servers[0].options
    assert options["ca"] == str(tmp_path / "ca.pem")
    assert options["cert"] == str(tmp_path / "home" / "c.pem")
    assert options["proxy"] == "none"
    assert settings.tls.cert == str(tmp_path / "own.pem")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (STDIO + '[server.notes.credentials]\ntype = "oauth"', "has no url"),
        (HTTP + '[server.notes.credentials]\ntype = "oath"', "Allowed: stored, oauth"),
        (HTTP + '[server.notes.credentials]\ntype = "client_credentials"', "has no client_id"),
        (HTTP + '[server.notes.credentials]\nissuer = "login"', "issuer"),
        (
            # The server itself could name who gets the secret.
            HTTP + '[server.notes.credentials]\nclient_id = "gate"\nclient_secret = "s"',
            "which authorization server may receive the client_secret. Expected: issuer.",
        ),
        (
            HTTP + '[server.notes.credentials]\ntype = "token_exchange"\nclient_id = "gate"',
            "tokens of callers. Expected: issuer or token_url.",
        ),
        (HTTP + '[server.notes.credentials]\nheaders = ["A B"]', "cannot be sent"),
        (STDIO + '[server.notes.credentials]\nheaders = ["A"]', "Name variables in env"),
        (HTTP + '[server.notes.credentials]\nenv = ["KEY"]', "Name headers instead"),
        (HTTP + 'proxy = "proxy:1"', "not a proxy URL"),
        ('[outbound]\nproxy = "socks://x"', "outbound.proxy"),
        ('[outbound]\nallow = ["10.0.0.0/99"]', "outbound.allow"),
        ('[serve]\ntrusted_proxies = ["proxy.example"]', "trusted_proxies"),
        ('[serve]\nroot_path = "tools/"', "root_path"),
        ('[credentials]\nkey = "vault"', "Allowed: file, keyring"),
        ('[credentials]\nclient_metadata_url = "http://x/y"', "https address"),
        ("[credentials]\nlogin_s = 1", "30"),
        ('allow_other_users = "yes"', "true or false"),
    ],
)
def test_what_cannot_work_is_named_with_what_is_allowed(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(SettingError, match=says.replace(".", r"\.")):
        loaded(tmp_path, text)

"""The setting `forward_headers` of a server."""

from pathlib import Path

import pytest

from toolgate.errors import SettingError
from toolgate.settings import load

URL = 'url = "https://crm.example.com/mcp"\n'


def forwarded(tmp_path: Path, text: str) -> tuple[str, ...]:
    file = tmp_path / "toolgate.toml"
    file.write_text(f"[server.crm]\n{text}", encoding="utf-8")
    (spec,) = load(file).servers
    return spec.forward_headers


def test_names_are_kept_in_lower_case_and_by_default_there_are_none(tmp_path: Path) -> None:
    listed = 'forward_headers = ["X-Tenant", "x-tenant", "Authorization"]'
    assert forwarded(tmp_path, URL + listed) == ("x-tenant", "authorization")
    assert forwarded(tmp_path, URL) == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('command = "x"\nforward_headers = ["X-Tenant"]', "is not reached over HTTP"),
        (URL + 'forward_headers = ["X-*"]', "no name of a header"),
        (URL + 'forward_headers = ["*"]', "patterns are not allowed"),
        (URL + 'forward_headers = ["X Tenant"]', "no name of a header"),
        (URL + 'forward_headers = ["Cookie"]', "which is never forwarded"),
        (URL + 'forward_headers = ["Host"]', "which is never forwarded"),
        (URL + 'forward_headers = ["Mcp-Session-Id"]', "which is never forwarded"),
        (URL + 'forward_headers = ["X-Toolgate-Key"]', "which is never forwarded"),
        (
            URL + 'forward_headers = ["x-tenant"]\n[server.crm.headers]\nX-Tenant = "all"',
            "which its headers set already",
        ),
        (
            URL + 'forward_headers = ["Authorization"]\n[server.crm.credentials]\ntype = "oauth"',
            "which its credentials set already",
        ),
    ],
)
def test_what_cannot_be_forwarded_is_refused(text: str, part: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=part):
        forwarded(tmp_path, text)

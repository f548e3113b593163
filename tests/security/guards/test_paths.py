"""Guards on paths: every spelling of a denied path is refused, and no spelling of another."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from toolgate.errors import GuardError
from toolgate.security.guards import CallGuard, CallGuards
from toolgate.settings import GuardTable, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

DENY = GuardTable(deny={"path": ("^/etc/",)})
SPELLINGS = (
    "/etc/passwd",
    "//etc/passwd",
    "/etc//passwd",
    "/./etc/passwd",
    "/etc/./passwd",
    "/tmp/../etc/passwd",
    "/tmp/x/../../etc/passwd",
    "/../etc/passwd",
    "/etc",
    "/etc/.",
    "/etc/x/..",
    "../../../../etc/passwd",
    "x/../../etc/passwd",
    "https://../../../etc/passwd",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE:///etc/passwd",
    "file://localhost/etc/passwd",
    "file://localhost//etc/./passwd",
    "file://example.org/etc/passwd",
    "file://x%2f@y/%65tc/passwd",
    "file:////etc/passwd?x#y",
    "file:///tmp/x%3F/../../etc/passwd",
    "/%65tc/passwd",
    "%2Fetc%2Fpasswd",
    "%252Fetc%252Fpasswd",
    "%25252Fetc%25252Fpasswd",
    "file%3A///etc/passwd",
    "/tmp/%2e%2e/etc/passwd",
    "/tmp/%252e%252e/etc/passwd",
    "\\etc\\passwd",
    "/tmp\\..\\etc\\passwd",
    "%5Cetc%5Cpasswd",
    "/etc\0",
    "/etc/passwd\0.txt",
    "/\0etc/passwd",
    "/tmp/..%00/etc/passwd",
    " /etc/passwd\n",
    "/proc/self/root/etc/passwd",
    "/proc/thread-self/root/etc/passwd",
    "/proc/thread-self/../../root/etc/passwd",
    "/proc/net/../root/etc/passwd",
    "/dev/fd/../root/etc/passwd",
    "/proc/1/root/etc/passwd",
    "/proc/1234/task/1234/root/etc/passwd",
    "/proc/self/root/proc/1/root/etc/passwd",
    "/proc/self/root/../etc/passwd",
    "/proc/self/cwd/../../../etc/passwd",
    "/proc/self/cwd/etc/passwd",
    "/proc/self/fd/3/etc/passwd",
    "/dev/fd/3/etc/passwd",
    "/proc/./self//root/etc/passwd",
    "/proc/self/../self/root/etc/passwd",
    "file:///proc/self/root/%65tc/passwd",
    "/tmp/..;/etc/passwd",
    "/tmp/..;x=1/../etc/passwd",
    "..;/..;/..;/etc/passwd",
    "/tmp/.;/..;/etc/passwd",
    "/tmp\\..;x\\etc\\passwd",
    "/tmp/%2e%2e%3b/etc/passwd",
    "/;/etc/passwd",
    "/%3bx/etc/passwd",
    "/etc;x/passwd",
    "~/../etc/passwd",
    "~/x/../../etc/passwd",
    "~root/../etc/passwd",
    "~app/../../etc/passwd",
    "jar:file:///etc/passwd!/",
    "jar:jar:file:///etc/passwd!/x!/",
    "url:file:///etc/passwd",
    "view-source:file:///etc/passwd",
    "local_file:///etc/passwd",
    "netdoc:///etc/passwd",
    "\uff0fetc\uff0fpasswd",
    "\uff0e\uff0e\uff0f\uff0e\uff0e\uff0f\uff45tc\uff0fpasswd",
    "\u2215etc\u2215passwd",
    "%c0%afetc%c0%afpasswd",
    "/tmp/%c0%ae%C0%AE/etc/passwd",
    "/tmp%25c0%25af../etc/passwd",
    '["/etc/passwd"]',
    ' {"a": ["/srv", "/etc/passwd"]}',
    '"/etc/passwd"',
    '["\\"/etc/passwd\\""]',
    '["/etc/passwd", NaN]',
    '["\\u002f%65tc/passwd\n"]',
    '{"a": 1, "a": "/etc/passwd"}',
    f'["/etc/passwd", {"9" * 5_000}]',
    "/" * 70_000 + "etc/passwd",
    "/x/.." * 20_000 + "/etc/passwd",
    "/" * 70_000 + "%65tc\\passwd",
)
OTHERS = (
    "/tmp/etc/passwd",
    "/etcetera/x",
    "/tmp/..etc/x",
    "/tmp/file with etc/ in it",
    "etc.txt",
    "https://example.org//etc/passwd",
    "/srv/100%25/etc",
    "/home/etc/.././etc/x",
    "file:///srv/etc/x",
    "50 % of /etc/ is text",
    "~/etc/x",
    "~/x/../etc/x",
    "~root/etc/x",
    "/srv/a;b/etc/x",
    "/tmp/a;../etc/x",
    "/tmp/x..;/etc/x",
    "https://example.org/..;/x",
    "profile:/etc/x",
    "/srv/\u00bd/etc",
    '["/srv/etc/x"]',
    '["/etc/passwd"',
)


def guard_of(table: GuardTable, folder: Path | None = None) -> CallGuard:
    guards = CallGuards([table], folder_of=lambda _: None if folder is None else str(folder))
    guard = guards.for_server("default", "files")
    assert guard is not None
    return guard


def is_allowed(guard: CallGuard, path: object) -> bool:
    try:
        guard.arguments("files:read", {"path": path})
    except GuardError:
        return False
    return True


@pytest.mark.parametrize("path", SPELLINGS, ids=lambda path: repr(path[:40]))
def test_other_spellings_of_a_denied_path_are_refused(path: str) -> None:
    assert not is_allowed(guard_of(DENY), path)
    assert not is_allowed(guard_of(DENY), ["/tmp/x", {"deep": path}])


@pytest.mark.parametrize("path", OTHERS)
def test_other_paths_and_texts_are_not_refused(path: str) -> None:
    assert is_allowed(guard_of(DENY), path)


def percent_encoded(text: str, chosen: list[bool]) -> str:
    pairs = zip(text, [*chosen, *[False] * len(text)], strict=False)
    return "".join(f"%{ord(char):02x}" if is_encoded else char for char, is_encoded in pairs)


@st.composite
def spelled(draw: st.DrawFn, path: str) -> str:
    """Another spelling of an absolute path."""
    names = st.sampled_from(["x", "srv", "a.b", "..x", "passwd"])
    filler = st.one_of(
        st.sampled_from(["", "."]), names.map(lambda name: f"{name}/.."), st.just("./.")
    )
    parts: list[str] = []
    for part in path.strip("/").split("/"):
        parts += [*draw(st.lists(filler, max_size=3)), part]
    text = "/" + "/".join(parts)
    text = draw(st.sampled_from(["", "", "/proc/self/root", "/proc/42/root", "/../.."])) + text
    if draw(st.booleans()):
        text = text.replace("/", "\\") if draw(st.booleans()) else text.replace("/", "\\", 1)
    text = draw(st.sampled_from(["", "", "file://", "file:", "file://localhost"])) + text
    for _ in range(draw(st.integers(0, 2))):
        text = percent_encoded(text, draw(st.lists(st.booleans(), max_size=len(text))))
    return text + draw(st.sampled_from(["", "", "\0", "\0.txt", " ", "\n"]))


@given(spelled("/etc/passwd"))
@example("%66ile:///proc/self/root\\etc/passwd")
def test_any_spelling_of_a_denied_path_is_refused(path: str) -> None:
    assert not is_allowed(guard_of(DENY), path)


@given(spelled("/srv/data/etc/passwd"))
def test_no_spelling_of_an_allowed_path_is_refused(path: str) -> None:
    # Where only some slashes are encoded, `..` leads elsewhere for a server that decodes nothing.
    assume(is_wholly_encoded_or_not_at_all(path))
    assert is_allowed(guard_of(DENY), path)


def is_wholly_encoded_or_not_at_all(path: str) -> bool:
    is_encoded = bool(re.search(r"%(25)*(2f|5c)", path, re.IGNORECASE))
    return not (is_encoded and re.search(r"[/\\]", path))


@given(
    st.lists(st.sampled_from([*"/.%\\~ \0", "25", "2f", "etc", "/..", "file:", "/proc/self/cwd"]))
)
def test_no_text_ends_a_guard(parts: list[str]) -> None:
    guard = guard_of(GuardTable(deny={"path": ("^nothing fits$",)}), Path.cwd())
    text = "".join(parts)

    assert is_allowed(guard, text) or text.count("%") > 2


def test_a_text_that_is_encoded_too_often_is_refused() -> None:
    with pytest.raises(GuardError, match="encoded too often"):
        guard_of(DENY).arguments("files:read", {"path": "/%" + "25" * 500 + "65tc"})


# On this machine


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Folders `secret` and `work`, with links between them."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("k")
    (tmp_path / "work" / "deep").mkdir(parents=True)
    (tmp_path / "work" / "file").write_text("f")
    (tmp_path / "work" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "work" / "key").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "work" / "again").symlink_to(tmp_path / "work" / "out")
    (tmp_path / "alias").symlink_to(tmp_path / "secret")
    (tmp_path / "shared").symlink_to(tmp_path / "work")
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "{disk}/work/out/key",
        "{disk}/work/out",
        "{disk}/work/key",
        "{disk}/work/again/key",
        "{disk}/shared/out/key",
        "{disk}/work/out/../secret/key",
        "{disk}/work/deep/../out/new",
        "/proc/self/root{disk}/work/out/key",
        "/proc/1/root{disk}/work/out/key",
        "/proc/1/root/../../..{disk}/work/out/key",
        "file://{disk}/work/%6fut/key",
        "out/key",
        "./out",
        "key",
        "deep/../key",
        "../secret/key",
        "/proc/self/cwd/out/key",
    ],
)
def test_links_to_a_denied_folder_are_followed(disk: Path, path: str) -> None:
    table = GuardTable(deny={"path": (f"^{disk}/secret/",)})

    assert not is_allowed(guard_of(table, disk / "work"), path.format(disk=disk))


@pytest.mark.parametrize(
    "path", ["{disk}/work/file", "file", "deep/x", "{disk}/shared/file", "../work/file", "new"]
)
def test_what_leads_elsewhere_is_not_refused(disk: Path, path: str) -> None:
    table = GuardTable(deny={"path": (f"^{disk}/secret/",)})

    assert is_allowed(guard_of(table, disk / "work"), path.format(disk=disk))


def test_a_denied_folder_that_is_a_link_is_denied_by_all_its_names(disk: Path) -> None:
    guard = guard_of(GuardTable(deny={"path": (f"^{disk}/alias/",)}), disk / "work")

    for path in (f"{disk}/alias/key", f"{disk}/secret/key", f"{disk}/work/out/key", "key"):
        assert not is_allowed(guard, path), path
    assert is_allowed(guard, f"{disk}/work/file")


@pytest.mark.parametrize("pattern", ["work", ".*work", "^.*work"])
def test_the_folder_of_a_server_does_not_fit_an_expression_for_any_part(
    disk: Path, pattern: str
) -> None:
    """Otherwise everything in it would be refused."""
    guard = guard_of(GuardTable(deny={"path": (pattern,)}), disk / "work")

    assert is_allowed(guard, "file")
    assert is_allowed(guard, "deep/./x")
    assert is_allowed(guard, "a sentence, and/or more")
    assert not is_allowed(guard, "../work/file")
    assert not is_allowed(guard, f"{disk}/shared/file")


def test_links_are_followed_for_an_expression_for_any_part(disk: Path) -> None:
    guard = guard_of(GuardTable(deny={"path": ("secret",)}), disk / "work")

    for path in ("key", "out/key", "deep/../out", f"{disk}/alias/key"):
        assert not is_allowed(guard, path), path


def test_links_are_not_followed_for_a_server_elsewhere(disk: Path) -> None:
    table = GuardTable(deny={"path": (f"^{disk}/secret/",)})

    assert is_allowed(guard_of(table), f"{disk}/work/out/key")


def test_the_home_folder_has_two_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for pattern in ("^~/\\.ssh/", f"^{tmp_path}/\\.ssh/"):
        guard = guard_of(GuardTable(deny={"path": (pattern,)}), tmp_path / "work")
        assert not is_allowed(guard, "~/.ssh/id")
        assert not is_allowed(guard, "~/x/../.ssh/id")
        assert not is_allowed(guard, f"{tmp_path}/.ssh/id")
        assert is_allowed(guard, "~/work")


# What is allowed


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("{disk}/work/file", True),
        ("{disk}/work/./deep//x", True),
        ("{disk}/work/deep/../file", True),
        ("{disk}/work/100%25", True),
        ("{disk}/work/../secret/key", False),
        ("{disk}/work/%2e%2e/secret/key", False),
        ("{disk}/work/..%252fsecret/key", False),
        ("{disk}/work/..\\secret\\key", False),
        ("{disk}/work/out/key", False),
        ("{disk}/work/key", False),
        ("{disk}/secret/key", False),
        ("file://{disk}/work/file", False),
    ],
)
def test_a_schema_has_to_fit_what_a_path_means(disk: Path, path: str, allowed: bool) -> None:
    table = GuardTable(arguments={"properties": {"path": {"pattern": f"^{disk}/work/"}}})

    assert is_allowed(guard_of(table, disk / "work"), path.format(disk=disk)) is allowed


def test_a_schema_about_addresses_does_not_let_paths_through() -> None:
    table = GuardTable(arguments={"properties": {"path": {"pattern": "^https://"}}})

    assert is_allowed(guard_of(table), "https://example.org//a/../b?x=/y#z")
    assert not is_allowed(guard_of(table), "https://../../../etc/passwd")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("deep/x", True), ("deep/./x", True), ("deep/../../secret/key", False), ("deep/..", False)],
)
@pytest.mark.parametrize("is_local", [True, False])
def test_a_schema_may_be_about_relative_paths(
    disk: Path, path: str, allowed: bool, is_local: bool
) -> None:
    table = GuardTable(arguments={"properties": {"path": {"pattern": "^deep/"}}})

    assert is_allowed(guard_of(table, disk / "work" if is_local else None), path) is allowed


def test_a_schema_may_be_about_a_folder_that_is_a_link(disk: Path) -> None:
    table = GuardTable(arguments={"properties": {"path": {"pattern": f"^{disk}/shared/"}}})
    guard = guard_of(table, disk)

    assert is_allowed(guard, f"{disk}/shared/file")
    assert is_allowed(guard, f"{disk}/shared/deep/")
    assert not is_allowed(guard, f"{disk}/shared/out/key")


@pytest.mark.parametrize(
    "value",
    ["https://example.org//a/../b", "12/31/2026", "a || b && c", "C:\\x", "50%", "a/b", ""],
)
def test_texts_that_are_no_paths_fit_a_schema_as_they_are(value: str) -> None:
    table = GuardTable(arguments={"properties": {"path": {"type": "string", "maxLength": 40}}})

    assert is_allowed(guard_of(table, Path.cwd()), value)


async def test_a_link_is_followed_before_a_call_is_sent(disk: Path) -> None:
    """Through the gateway; the server is one on this machine."""
    arrived: list[Json] = []

    def read(params: Json) -> Json:
        arrived.append(params["arguments"])
        return text_result("done")

    table = GuardTable(tools=("files:read",), deny={"path": (f"^{disk}/secret/",)})
    files = FakeUpstream({"read": read})
    async with memory_app({"files": files}, Settings(guard=(table,))) as app:
        for path, is_refused in (
            (f"{disk}/work/out/key", True),
            (f"/proc/self/root{disk}/secret/key", True),
            (f"{disk}/work/file", False),
        ):
            params: dict[str, Any] = {"name": "files__read", "arguments": {"path": path}}
            result = await app.gateway.call(Caller.local(), params, None)
            assert result.get("isError", False) is is_refused

    assert arrived == [{"path": f"{disk}/work/file"}]

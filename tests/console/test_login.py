"""Who may look: sessions instead of tokens in a browser."""

import html
import re
from dataclasses import replace
from urllib.parse import unquote

import anyio
import httpx2
import pytest

from tests.console.console_client import Console, notes, open_console, visible_text
from tests.limits import HANG_S
from toolgate.security.authn import identity_of
from toolgate.settings import LogSettings, ServeSettings, Settings
from toolgate.types import Caller

REQUIRED = Settings(auth="required")
ADMIN = Caller.local()


async def token(place: Console, name: str, *roles: str) -> str:
    made = await place.app.gateway.admin.create_token(ADMIN, name, roles=roles)
    return made.secret


async def log_in(place: Console, secret: str) -> None:
    csrf = await place.csrf()
    answer = await place.client.post("/console/login", data={"csrf": csrf, "token": secret})
    assert answer.status_code == 303, visible_text(answer.text)


async def test_nobody_sees_a_page_before_logging_in() -> None:
    async with open_console(settings=REQUIRED) as place:
        for path in ("", "servers", "audit", "tool?key=notes:add", "audit/export"):
            answer = await place.client.get(f"/console/{path}")
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/console/login")
        assert (await place.client.get("/console/events")).status_code == 401
        wrong = await place.send("login", 401, token="tg_00000000_wrong")
        assert "The token is unknown" in visible_text(wrong.text)


async def test_a_session_is_worth_what_its_token_is_worth() -> None:
    async with open_console(settings=REQUIRED) as place:
        secret = await token(place, "anna", "admin")
        await log_in(place, secret)
        assert "Logged in as anna" in visible_text(await place.page())
        [session] = await place.app.store.sessions.list_all()
        assert secret.encode() not in session.sealed
        assert secret not in repr(session)
        await place.app.gateway.admin.revoke_token(ADMIN, "anna")
        assert (await place.client.get("/console")).status_code == 303


async def test_over_https_no_other_host_can_set_the_cookie_of_a_session() -> None:
    """Otherwise one of the same domain could log a browser in as somebody else."""
    async with open_console(settings=REQUIRED) as place:
        place.client.base_url = httpx2.URL("https://127.0.0.1:7420")
        csrf = await place.csrf()
        data = {"csrf": csrf, "token": await token(place, "anna", "admin")}
        answer = await place.client.post("/console/login", data=data)
        [cookie] = answer.headers.get_list("set-cookie")
        name, _, rest = cookie.partition("=")
        value, *attributes = rest.split("; ")
        assert name == "__Host-toolgate_session"
        assert {"HttpOnly", "Path=/", "Secure"} <= set(attributes)
        assert "Logged in as anna" in visible_text(await place.page())

        place.client.cookies.clear()
        for other in ("toolgate_session", "__Secure-toolgate_session"):
            headers = {"cookie": f"{other}={value}"}
            assert (await place.client.get("/console", headers=headers)).status_code == 303


async def test_a_message_is_shown_once_over_https_too() -> None:
    async with open_console() as place:
        place.client.base_url = httpx2.URL("https://127.0.0.1:7420")
        answer = await place.send("projects", name="web")
        [flash] = [text for text in answer.headers.get_list("set-cookie") if "flash" in text]
        assert flash.startswith("__Host-toolgate_flash=")
        shown = [visible_text(await place.page("projects")) for _ in range(2)]
        message = unquote(flash.partition("=")[2].partition(";")[0])
        assert [message in text for text in shown] == [True, False]


async def test_a_gateway_that_shares_its_host_has_cookies_for_its_own_path() -> None:
    settings = replace(REQUIRED, serve=ServeSettings(root_path="/tools"))
    async with open_console(settings=settings) as place:
        place.client.base_url = httpx2.URL("https://127.0.0.1:7420")
        answer = await place.client.get("/tools/console/login")
        [cookie] = answer.headers.get_list("set-cookie")
        assert cookie.startswith("toolgate_session=")
        assert {"Path=/tools/console", "Secure"} <= set(cookie.split("; "))


async def test_the_log_says_who_opened_a_page(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="toolgate.server")
    wanted = replace(REQUIRED, log=LogSettings(requests="on"))
    async with open_console(settings=wanted) as place:
        secret = await token(place, "anna", "admin")
        await place.client.get("/console/login")
        await log_in(place, secret)
        await place.page("servers")
        [made] = await place.app.gateway.admin.tokens(ADMIN)
    requests = [record for record in caplog.records if record.getMessage() == "request"]
    told = [(record.__dict__["path"], record.__dict__["caller"]) for record in requests]
    assert ("/console/login", None) in told
    assert told[-1] == ("/console/servers", f"token:{made.token_id}")


async def test_what_was_typed_before_another_tab_logged_in_is_kept() -> None:
    async with open_console(settings=REQUIRED) as place:
        secret = await token(place, "anna", "admin")
        await log_in(place, secret)
        typed = {"csrf": await place.csrf(), "name": "web<1>"}
        place.client.cookies.clear()
        await log_in(place, secret)
        ours = {"sec-fetch-site": "same-origin"}
        late = await place.client.post("/console/projects", data=typed, headers=ours)
        assert late.status_code == 403
        told = visible_text(late.text)
        assert "Nothing was saved This page was loaded before your last login" in told
        assert "web<1>" in told
        again = dict(re.findall(r'name="(\w+)" value="([^"]*)">', late.text.partition("<main")[2]))
        again = {name: html.unescape(value) for name, value in again.items()}
        done = await place.client.post("/console/projects", data=again, headers=ours)
        assert "web<1>" in visible_text(done.text), "now it is the name that is wrong"
        assert done.status_code == 400
        asked = {"csrf": await place.csrf(), "token": secret}
        asked["sent"] = '["projects", [["name", "web<2>"]]]'
        late = await place.client.post("/console/login", data=asked)
        assert "web<2>" in visible_text(late.text), "nor at the page that asked who it is"
        other_site = {"sec-fetch-site": "cross-site"}
        elsewhere = await place.client.post("/console/projects", data=typed, headers=other_site)
        assert 'name="name"' not in elsewhere.text, "of other sites nothing is taken over"


async def test_a_session_can_be_ended_by_somebody_else() -> None:
    async with open_console(settings=REQUIRED) as place:
        system = "Windows NT 10.0; Win64; x64; rv:140.0"
        place.client.headers["user-agent"] = f"Mozilla/5.0 ({system}) Gecko/20100101 Firefox/140.0"
        await log_in(place, await token(place, "anna", "admin"))
        [session] = await place.app.store.sessions.list_all()
        told = visible_text(await place.page("sessions"))
        assert "anna" in told
        assert "Firefox on Windows" in told
        await place.app.store.sessions.delete(session.session_id)
        assert (await place.client.get("/console")).status_code == 303


async def test_nothing_that_was_typed_is_lost_when_a_session_ends() -> None:
    async with open_console(settings=REQUIRED) as place:
        secret = await token(place, "anna", "admin")
        await log_in(place, secret)
        csrf = re.search(r'name="csrf" value="(\w+)"', await place.page("projects"))
        assert csrf is not None
        [session] = await place.app.store.sessions.list_all()
        await place.app.store.sessions.delete(session.session_id)
        late = await place.client.post(
            "/console/projects", data={"csrf": csrf[1], "name": "web<1>"}
        )
        assert late.status_code == 401
        assert "Your input is kept" in visible_text(late.text)
        fields = dict(re.findall(r'name="(csrf|sent|next)" value="([^"]*)"', late.text))
        sent = fields["sent"].replace("&#34;", '"').replace("&lt;", "<").replace("&gt;", ">")
        again = await place.client.post(
            "/console/login", data={"csrf": fields["csrf"], "sent": sent, "token": secret}
        )
        assert again.status_code == 200
        assert "Your input is kept" in visible_text(again.text)
        assert 'name="name" value="web&lt;1&gt;"' in again.text
        new = re.search(r'name="csrf" value="(\w+)"', again.text)
        assert new is not None
        done = await place.client.post("/console/projects", data={"csrf": new[1], "name": "web"})
        assert done.status_code == 303


async def test_what_the_address_of_a_form_said_is_kept_too() -> None:
    async with open_console(settings=REQUIRED) as place:
        secret = await token(place, "anna", "admin")
        await log_in(place, secret)
        await place.app.store.sessions.delete(
            (await place.app.store.sessions.list_all())[0].session_id
        )
        form = {"csrf": "0", "key": "notes:add", "mark": "right"}
        late = await place.client.post("/console/search?q=a+%26+b&limit=10", data=form)
        fields = dict(re.findall(r'name="(csrf|sent)" value="([^"]*)"', late.text))
        fields["sent"] = html.unescape(fields["sent"])
        again = await place.client.post("/console/login", data={**fields, "token": secret})
        assert 'action="/console/search?q=a+%26+b&amp;limit=10"' in again.text


async def test_a_member_sees_only_what_a_member_may() -> None:
    async with open_console(settings=REQUIRED) as place:
        await log_in(place, await token(place, "ben", "member"))
        home = visible_text(await place.page())
        assert "Tools" in home
        assert "Tokens" not in home
        assert "Audit" not in home
        for path in (
            "tokens",
            "permissions",
            "guards",
            "audit",
            "servers/add",
            "sessions",
            "why",
            "projects",
        ):
            assert "with the roles member" in visible_text(await place.page(path, status=403))
        answer = await place.client.get("/console/audit/export")
        assert answer.status_code == 403


async def test_a_member_sees_the_calls_of_nobody_else() -> None:
    server = notes()
    server.silent.add("tools/call")
    async with open_console({"notes": server}, REQUIRED) as place:
        made = await place.app.gateway.admin.create_token(ADMIN, "ben", roles=["member"])
        ben = Caller(
            caller_id=f"token:{made.row.token_id}",
            identity=identity_of(made.row),
        )
        began = anyio.Event()
        forget = place.app.gateway.calls.on_running(began.set)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(place.app.gateway.calls.execute, ADMIN, "notes:find", {})
            with anyio.fail_after(HANG_S):
                await began.wait()
            forget()
            assert place.app.gateway.calls.running(ben) == []
            assert len(place.app.gateway.calls.running(ADMIN)) == 1
            tasks.cancel_scope.cancel()


async def test_somebody_without_a_permission_sees_no_tool() -> None:
    async with open_console(settings=REQUIRED) as place:
        await log_in(place, await token(place, "carl"))
        assert "No tools available to you yet" in await place.page("tools")
        assert "Adds a note" not in await place.page("tool", status=404, key="notes:add")
        assert "notes" not in visible_text(await place.page("servers"))


async def test_why_somebody_cannot_see_a_tool_is_told_gate_by_gate() -> None:
    async with open_console(settings=REQUIRED) as place:
        await log_in(place, await token(place, "anna", "admin"))
        await token(place, "carl")
        told = visible_text(await place.page("why", tool="notes:add", token="carl"))
        assert "carl cannot see notes:add" in told
        assert "Rules failed" in told
        found = visible_text(await place.page("search?as=carl", q="add a note"))
        assert "Hidden from carl" in found
        await place.send("token", name="carl", do="allow", patterns="notes:add")
        told = visible_text(await place.page("why", tool="notes:add", token="carl"))
        assert "carl can see and call notes:add" in told
        assert "carl allowed" in visible_text(await place.page("tool", key="notes:add"))


async def test_a_search_is_seen_as_in_a_project() -> None:
    async with open_console({"notes": notes(), "other": notes()}, REQUIRED) as place:
        await log_in(place, await token(place, "anna", "admin"))
        await token(place, "carl", "member")
        wanted = {"servers": ["other"], "shared_servers": False}
        await place.app.gateway.admin.save_project(ADMIN, "web", settings=wanted, new=True)
        told = visible_text(await place.page("search", q="add a note"))
        assert "notes:add" in told
        page = await place.page("search?in=web", q="add a note")
        assert "<option selected>web</option>" in page
        assert "other:add" in visible_text(page)
        assert "notes:add" not in visible_text(page)
        page = await place.page("search?as=carl&in=web", 400, q="add a note")
        assert "Failed." in visible_text(page)


async def test_where_no_token_is_asked_for_it_is_said_what_rules_would_do() -> None:
    async with open_console() as place:
        await token(place, "anna", "member")
        await place.send("token", name="anna", do="deny", patterns="notes:add")
        assert "These rules apply once" in visible_text(await place.page("token", name="anna"))
        told = visible_text(await place.page("why", tool="notes:add", token="anna"))
        assert "anna can see and call notes:add" in told
        assert "No token is required" in told
        assert 'With auth = "required", it would not pass: deny notes:add to token:anna' in told
        told = visible_text(await place.page("why", tool="notes:find", token="anna"))
        assert 'With auth = "required", it would pass: allow' in told


async def test_a_token_is_shown_once() -> None:
    async with open_console(settings=REQUIRED) as place:
        await log_in(place, await token(place, "anna", "admin"))
        made = await place.send("tokens", 200, name="ben", roles="member")
        found = re.search(r'<code id="secret">(tg_\S+?)</code>', made.text)
        assert found is not None
        assert made.headers["cache-control"] == "no-store"
        assert found[1] not in await place.page("tokens")
        assert found[1] not in await place.page("token", name="ben")
        again = await place.send("token", 200, name="ben", do="rotate", grace="0")
        assert found[1] not in again.text
        await place.send("token", name="ben", do="revoke")
        assert "revoked" in visible_text(await place.page("token", name="ben"))


async def test_logging_out_ends_the_session() -> None:
    async with open_console(settings=REQUIRED) as place:
        await log_in(place, await token(place, "anna", "admin"))
        csrf = re.search(r'name="csrf" value="(\w+)"', await place.page())
        assert csrf is not None
        assert (
            await place.client.post("/console/logout", data={"csrf": csrf[1]})
        ).status_code == 303
        assert await place.app.store.sessions.list_all() == []
        assert (await place.client.get("/console")).status_code == 303


_ENTITIES = "%22%3C%26%27" * 1_300
"""As HTML, more than 20,000 characters in a form of 16 KB."""

LOGIN_FORMS = {
    "a token of characters that HTML escapes": f"token={_ENTITIES}",
    "a page of such characters": f"next={_ENTITIES}",
    "a form of such characters that is kept": f"sent={_ENTITIES}",
    "many small fields": "&".join(f"name{number}={'%22' * 60}" for number in range(100)),
    "almost too many bytes": f"token={'%3C' * 21_000}",
    "too many bytes": f"token={'a' * 70_000}",
    "too many fields": "&".join("a" * 101),
    "four megabytes of fields": "a&" * 2_000_000,
    "four megabytes of escapes": "next=" + "%3C" * 1_300_000,
}


@pytest.mark.parametrize("form", LOGIN_FORMS.values(), ids=LOGIN_FORMS)
@pytest.mark.parametrize("path", ["login", "servers", "logins/begin"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "same-origin"},
        {"referer": f"http://127.0.0.1:7420/console/tools?q={'%22' * 9_000}"},
    ],
    ids=["a program", "a browser", "from a long address"],
)
async def test_forms_of_anonymous_users_are_small(
    form: str, path: str, headers: dict[str, str]
) -> None:
    """Anyone can send these without a token, so they may cost nothing."""
    async with open_console(settings=REQUIRED) as place:
        answer = await place.client.post(
            f"/console/{path}",
            content=form.encode(),
            headers={"content-type": "application/x-www-form-urlencoded", **headers},
        )
    assert answer.status_code in {401, 403, 413}
    assert len(answer.content) < 60_000, "nothing large comes back"


async def test_somebody_whose_session_has_ended_is_told_that_a_long_form_is_not_kept() -> None:
    async with open_console(settings=REQUIRED) as place:
        late = await place.client.post("/console/projects", data={"name": "w" * 20_000})
        assert late.status_code == 401
        assert "too long to keep" in visible_text(late.text)
        assert "www" not in late.text
        form = {"csrf": "of an earlier page", "token": "w" * 20_000}
        early = await place.client.post(
            "/console/login", data=form, headers={"sec-fetch-site": "same-origin"}
        )
        assert early.status_code == 403
        assert "too long to be repeated" in visible_text(early.text)


@pytest.mark.parametrize("page", ["login?next=", "tools?q="])
async def test_a_long_address_does_not_come_back_before_a_login(page: str) -> None:
    async with open_console(settings=REQUIRED) as place:
        answer = await place.client.get(f"/console/{page}{'%3C' * 20_000}")
    assert answer.status_code in {200, 303}
    assert len(answer.content) + len(str(answer.headers)) < 20_000


async def test_users_may_send_large_forms() -> None:
    async with open_console(settings=REQUIRED) as place:
        await log_in(place, await token(place, "anna", "admin"))
        answer = await place.client.post(
            "/console/projects", data={"csrf": await place.csrf(), "name": "<" * 200_000}
        )
        assert answer.status_code == 400
        too_large = await place.client.post("/console/projects", content=b"a" * (4 * 2**20 + 1))
        assert too_large.status_code == 413
        assert too_large.text == "The form is larger than 4,096 KB."


async def test_a_saved_form_that_is_nested_without_end_is_ignored() -> None:
    async with open_console() as place:
        answer = await place.send("login", sent='["x",' + "[" * 60_000)
    assert answer.headers["location"].endswith("/console")

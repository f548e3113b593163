"""Projects that exist only in `toolgate.toml`: what is stored for their callers is stored."""

from dataclasses import replace
from pathlib import Path

from tests.chat.chat_gateway import chatting
from toolgate.settings import ProjectTable, ResultSettings, Settings
from toolgate.store import StoredProject, make_store
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.testing.contracts.store.samples import sample_result
from toolgate.types import Caller

SETTINGS = Settings(
    mode="meta",
    project={"web": ProjectTable(servers=("a",))},
    results=ResultSettings(page_tokens=2000),
)
WEB = replace(Caller.local(), project_id="web")


async def test_large_results_come_in_pages() -> None:
    upstream = FakeUpstream({"big": lambda _: text_result("line\n" * 30_000)})
    async with memory_app({"a": upstream}, SETTINGS) as app:
        call = {"name": "tool_execute", "arguments": {"toolKey": "a:big"}}
        page = await app.gateway.call(WEB, call, None)

        assert page["_meta"]["toolgate/page"]["handle"]


async def test_chat_turns_and_their_threads_work() -> None:
    async with chatting({"text": "Hello."}, settings=SETTINGS) as place:
        status, answer = await place.post(
            "/v1/chat/completions",
            {"model": "main", "messages": [{"role": "user", "content": "Hi"}]},
            x_toolgate_thread="t1",
            x_toolgate_project="web",
        )

        assert status == 200, answer
        [thread] = await place.app.store.threads.select("web", None)
        assert thread.name == "t1"


async def test_a_project_that_is_added_to_the_file_works_at_once() -> None:
    async with memory_app({"a": FakeUpstream()}, replace(SETTINGS, project={})) as app:
        await app.reload(replace(SETTINGS, servers=app.settings.servers))
        await app.store.results.save(sample_result("h", project_id="web"))


async def test_a_project_that_left_the_file_is_gone_and_its_data_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    async with memory_app({"a": FakeUpstream()}, SETTINGS, store_url=url) as app:
        await app.store.results.save(sample_result("h", project_id="web"))
    async with memory_app(
        {"a": FakeUpstream()}, replace(SETTINGS, project={}), store_url=url
    ) as app:
        assert [project.name for project in await app.gateway.admin.projects(WEB)] == []
        assert await app.store.results.get("h")


async def test_a_project_of_the_store_keeps_its_settings_under_the_same_name(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    store = make_store(url)
    await store.open()
    await store.projects.save(StoredProject(project_id="web", settings={"read_only": True}))
    await store.close()
    async with memory_app({"a": FakeUpstream()}, SETTINGS, store_url=url) as app:
        projects = {row.project_id: row for row in await app.store.projects.list_all()}
        assert projects["web"].settings == {"read_only": True}
        assert not app.permissions.project("web").read_only, "the file has precedence"

"""Rules from the files of a pack: read, filled in, exchanged while the gateway runs."""

from pathlib import Path

import orjson
import pytest

from toolgate.app.app import App
from toolgate.settings import PackSettings, Settings
from toolgate.testing import memory_app
from toolgate.types import Caller

ME = Caller.local(client="ide", conversation="talk")

FILES = {
    "pack.toml": 'name = "shop"\n[variables]\nCOMPANY = "ACME"\nOPEN = "nothing"\n',
    "intents/refunds.txt": (
        "give me my money back\nrefund order 4711\nthe customer wants a refund\n"
        "pay the amount back to the customer\nstart a refund\n"
    ),
    "intents/refunds.toml": 'name = "REFUNDS"\ntools = ["refund_order", "list_refunds"]\n',
    "rules/refunds.md": "=== REFUNDS ===\n{{COMPANY}} {{OPEN}} {{WHO}}\n{{TOOLS}}\n",
    "tools/refunds.py": (
        "from toolgate import tool\n\n"
        '@tool\ndef refund_order(order: int) -> str:\n    """Pays an order back."""\n'
        '    return f"refunded {order}"\n\n'
        '@tool\ndef list_refunds() -> str:\n    """Lists refunds."""\n    return "none"\n'
    ),
    "variables.py": (
        "from toolgate import Context\n\n"
        "async def variables(context: Context) -> dict[str, str]:\n"
        '    return {"OPEN": f"{context.settings[\'desk\']} open", "WHO": context.caller.client}\n'
    ),
}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path / "shop"


def with_pack(pack: Path) -> Settings:
    options = {"shop": {"desk": "desk 3"}}
    # Learning the prompts of the pack that ships would take most of the time.
    packs = PackSettings(paths=(str(pack),), disable=("schema",), options=options)
    return Settings(mode="meta", packs=packs)


async def asked(app: App, prompt: str) -> str:
    answer = await app.gateway.call(
        ME, {"name": "processPrompt", "arguments": {"prompt": prompt}}, None
    )
    return answer["content"][0]["text"]


async def names(app: App) -> list[str]:
    return [tool["name"] for tool in orjson.loads(await app.gateway.listing.list_tools(ME))]


async def test_a_pack_of_files_is_enough_for_an_enriched_prompt(pack: Path) -> None:
    async with memory_app({}, with_pack(pack)) as app:
        answer = await asked(app, "please refund order 99")

        assert answer.startswith("=== SHOP CONTEXT ===\n")
        assert (
            "\n\nUSER REQUEST:\nplease refund order 99\n\n"
            "=== REFUNDS ===\n"
            "ACME desk 3 open ide\n"
            "- shop:refund_order(order: int): Pays an order back.\n"
            "- shop:list_refunds(): Lists refunds.\n"
            "\n"
        ) in answer
        assert (await names(app))[:2] == ["processPrompt", "getKnowledge"]


async def test_changed_rules_count_from_the_next_request_on(pack: Path) -> None:
    async with memory_app({}, with_pack(pack)) as app:
        await asked(app, "refund order 5")
        (pack / "rules" / "refunds.md").write_text("New rules.", "utf-8")
        (pack / "variables.py").write_text("def variables():\n    return {}\n", "utf-8")
        assert await app.packs.refresh()
        assert "\n\nNew rules.\n\n" in await asked(app, "refund order 5")

        (pack / "rules" / "refunds.md").unlink()
        assert await app.packs.refresh()
        assert await asked(app, "refund order 5") == "PASS_THROUGH"
        assert "processPrompt" not in await names(app)


@pytest.mark.parametrize(
    "code",
    [
        "import no_such_module",
        "x = 1",
        "def variables(context):\n    raise ValueError('no')",
        "de f",
    ],
    ids=["import", "no function", "raises", "no Python"],
)
async def test_live_variables_that_cannot_be_had_leave_those_of_the_file(
    code: str, pack: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (pack / "variables.py").write_text(code, "utf-8")
    async with memory_app({}, with_pack(pack)) as app:
        answer = await asked(app, "refund order 5")

    assert "=== REFUNDS ===\nACME nothing {{WHO}}\n" in answer
    assert "variables" in caplog.text

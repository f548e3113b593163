"""Messages become example prompts of a user's own pack, after a preview of what changes."""

from pathlib import Path

import pytest

from tests.console.console_client import Console, open_console, visible_text
from tests.packs.pack_files import write_files
from toolgate.settings import PackSettings, Settings

REFUNDS = """\
i want my money back
refund order 12
please reimburse the customer
show me the last refunds
give the money back for order 7
"""
FORMS = """\
open the customers form
create a new form for invoices
which forms are there
show all forms please
i need a screen to enter addresses
"""
LOST = "my cash please, this kettle leaks"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_files(
        tmp_path / "shop",
        {
            "pack.toml": "",
            "intents/refunds.txt": REFUNDS,
            "intents/forms.txt": FORMS,
            "tests.jsonl": '{"message": "show all the forms", "intent": "forms"}\n',
        },
    )


def settings_with(pack: Path) -> Settings:
    return Settings(packs=PackSettings(paths=(str(pack),), disable=("schema",)))


async def preview(place: Console, message: str, intent: str) -> str:
    """The page with what the example would change."""
    answer = await place.send("example", 200, message=message, intent=intent, do="preview")
    return place.checked(answer)


async def test_a_message_becomes_a_prompt_with_one_click_after_a_preview(shop: Path) -> None:
    async with open_console(settings=settings_with(shop)) as place:
        page = await place.page("intents", message=LOST)
        assert "/console/example?message=my+cash+please" in page
        told = visible_text(await preview(place, LOST, "shop/refunds"))
        assert "None of 12 known messages would be wrong" in told
        assert f"{LOST} none refunds refunds" in told
        assert "Add to refunds.txt" in told
        assert (shop / "intents/refunds.txt").read_text("utf-8") == REFUNDS

        await place.send("example", message=LOST, intent="shop/refunds", do="add")

        told = visible_text(await place.page("intents"))
        assert "The message was added to refunds.txt of shop." in told
        assert (shop / "intents/refunds.txt").read_text("utf-8") == f"{REFUNDS}{LOST}\n"
        assert "example prompt added" in visible_text(await place.page("audit"))
        await place.send("example", message=LOST, intent="shop/refunds", do="add")
        assert "already in refunds.txt" in visible_text(await place.page("intents"))


async def test_a_preview_names_known_messages_that_would_be_wrong(shop: Path) -> None:
    async with open_console(settings=settings_with(shop)) as place:
        told = visible_text(await preview(place, "show all the forms", "shop/refunds"))
        assert "known messages would be wrong" in told
        assert "show all the forms forms refunds wrong forms" in told
        assert "Add to refunds.txt anyway" in told


async def test_a_message_that_a_pack_does_not_handle_becomes_unsupported(shop: Path) -> None:
    async with open_console(settings=settings_with(shop)) as place:
        page = await preview(place, "what a nice form", "shop/none")
        assert '<option value="shop/none" selected>nothing that shop handles</option>' in page
        assert "Add to unsupported.txt" in page
        await place.send("example", message="what a nice form", intent="shop/none", do="add")
        assert (shop / "unsupported.txt").read_text("utf-8") == "what a nice form\n"


@pytest.mark.parametrize(
    ("message", "intent", "reason"),
    [
        ("# a comment", "shop/refunds", "'# a comment' cannot be a prompt."),
        ("hello", "shop/nothing", "There is no intent 'nothing' in your packs."),
        ("hello", "schema/type-info", "There is no intent 'type-info' in your packs."),
    ],
)
async def test_what_cannot_be_an_example_is_refused_with_the_reason(
    shop: Path, message: str, intent: str, reason: str
) -> None:
    async with open_console(settings=settings_with(shop)) as place:
        answer = await place.send("example", 400, message=message, intent=intent)
        assert reason in visible_text(answer.text)
        assert (shop / "intents/refunds.txt").read_text("utf-8") == REFUNDS


async def test_without_a_pack_of_ones_own_there_is_nothing_to_teach() -> None:
    async with open_console() as place:
        assert "No packs of your own." in visible_text(await place.page("example"))
        assert "/console/example" not in await place.page("intents", message="hello")

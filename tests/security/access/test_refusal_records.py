"""What anybody can cause as often as they like leaves few audit records."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from toolgate.app.app import App
from toolgate.errors import CredentialError
from toolgate.security.access import PresentedCredentials
from toolgate.settings import Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import AuditRecord, Caller

ADMIN = Caller.local()


@asynccontextmanager
async def recorded(records: list[AuditRecord]) -> AsyncGenerator[App]:
    """A gateway that needs tokens; all of its records are in the list when it has ended."""
    tools = {"add": lambda _: text_result("added")}
    async with memory_app({"notes": FakeUpstream(tools)}, Settings(auth="required")) as app:
        app.recorder.on_outcome(records.append)
        yield app


async def test_a_revoked_token_is_recorded_with_its_owner() -> None:
    records: list[AuditRecord] = []
    async with recorded(records) as app:
        token = await app.gateway.admin.create_token(ADMIN, "anna")
        await app.gateway.admin.revoke_token(ADMIN, "anna")
        credentials = PresentedCredentials(
            authorization=f"Bearer {token.secret}", address="192.0.2.1"
        )
        for _ in range(3):
            with pytest.raises(CredentialError):
                await app.gateway.admission.admit(credentials)

    [refusal] = [record for record in records if record.action == "login_refused"]
    assert (refusal.target, refusal.status) == ("192.0.2.1", "wrong_token")
    assert refusal.caller_id == f"token:{token.row.token_id}"
    assert refusal.detail["count"] == 3


async def test_a_flood_of_refused_logins_leaves_few_records() -> None:
    """100,000 refusals from as many addresses; one record stands for most of them."""
    records: list[AuditRecord] = []
    async with recorded(records) as app:
        for number in range(100_000):
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            with pytest.raises(CredentialError):
                await app.gateway.admission.admit(PresentedCredentials(address=address))
        assert app.gateway.admission.refusals["no_token"] == 100_000

    logins = [record for record in records if record.action == "login_refused"]
    assert len(logins) == 65
    assert sum(record.detail["count"] for record in logins) == 100_000
    [others] = [record for record in logins if record.target == "other addresses"]
    assert others.detail["count"] == 100_000 - 64


async def test_listing_tools_leaves_one_record_per_client() -> None:
    records: list[AuditRecord] = []
    editor = replace(ADMIN, client="editor")
    async with recorded(records) as app:
        for _ in range(5):
            await app.gateway.listing.list_tools(editor)
        for number in range(100):
            await app.gateway.listing.list_tools(replace(ADMIN, client=f"client {number}"))

    listings = [record for record in records if record.action == "list"]
    counts = {record.client: record.detail["count"] for record in listings}
    assert len(listings) == 65
    assert (counts["editor"], counts["client 0"], counts["other clients"]) == (5, 1, 37)
    assert {(record.target, record.status) for record in listings} == {("tools/list", "ok")}

"""The short form of `make fuzz`: inputs that once failed, and as many new ones as fit a minute."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.campaign import attack
from tests.fuzz.gateway import Answer, open_gateway
from tests.fuzz.inputs import FuzzInput, load_corpus, save_to_corpus
from tests.fuzz.mutations import mutate
from tests.fuzz.oracles import fault_of, fault_of_line
from tests.fuzz.seeds import console_seeds, mcp_seeds, openai_seeds, rest_seeds, stdio_seeds

COUNT = 12_000
SEEDED = 20_261_124
"""Fixed, so that the same change passes or fails everywhere; `make fuzz` draws a new seed."""


async def test_no_input_breaks_the_gateway() -> None:
    """Both eras over HTTP and stdio, REST, chat, console forms and raw bytes."""
    campaign = await attack(COUNT, seed=SEEDED)

    assert [(failure.fault, failure.entry) for failure in campaign.failures] == []
    assert campaign.sent >= COUNT
    assert {"200", "400", "401", "404"} <= campaign.statuses.keys()


async def test_every_seed_is_answered_without_a_fault(tmp_path: Path) -> None:
    """The oracles accept what correct clients get."""
    async with open_gateway(tmp_path) as attacked:
        seeds = [
            *(*mcp_seeds(), *openai_seeds()),
            *(*await rest_seeds(attacked), *await console_seeds(attacked)),
        ]
        faults = [(seed, fault_of(seed, await attacked.send(seed))) for seed in seeds]

    assert len(seeds) > 200
    assert [fault for fault in faults if fault[1]] == []


BROKEN = {
    "an internal error": Answer(status=500, body=b"oops"),
    "a page that timed out": Answer(status=503, body=b"<html>"),
    "nothing": Answer(status=0),
    "a traceback": Answer(status=400, body=b"Traceback (most recent call last):"),
    "a file of the program": Answer(status=400, body=b"/usr/lib/toolgate/app.py is missing"),
    "a header with a line break": Answer(status=200, headers=((b"x", b"a\r\nb: c"),)),
    "another length": Answer(status=200, headers=((b"content-length", b"9"),), body=b"x"),
    "no JSON": Answer(status=200, headers=((b"content-type", b"application/json"),), body=b"{"),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_the_oracles_notice_a_broken_answer(answer: Answer) -> None:
    assert fault_of(FuzzInput(target="/api/v1/tools"), answer)


BROKEN_LINES = {
    "no JSON": b"hello",
    "another id": b'{"jsonrpc":"2.0","id":"1","result":{}}',
    "neither result nor error": b'{"jsonrpc":"2.0","id":1}',
    "both": b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}',
    "an internal error": b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}',
    "no version": b'{"id":1,"result":{}}',
}


@pytest.mark.parametrize("line", BROKEN_LINES.values(), ids=BROKEN_LINES)
def test_the_oracles_notice_a_broken_message(line: bytes) -> None:
    assert fault_of_line(line, [1])
    assert not fault_of_line(b'{"jsonrpc":"2.0","id":1,"result":{}}', [1])


@given(st.integers(), st.sampled_from([*mcp_seeds(), *openai_seeds(), *stdio_seeds()]))
def test_the_same_seed_makes_the_same_input_which_survives_its_file(
    seed: int, entry: FuzzInput
) -> None:
    others = [entry, *openai_seeds()]
    first, second = (mutate(entry, others, Random(seed)) for _ in range(2))

    assert first == second
    assert FuzzInput.from_json(first.to_json()) == first


def test_what_failed_is_sent_again_by_later_runs() -> None:
    with TemporaryDirectory() as folder:
        entry = FuzzInput(kind="socket", body=b"\xff\x00 bytes")
        path = save_to_corpus(entry, Path(folder))

        assert FuzzInput.from_json(path.read_bytes()) == entry
    assert all(isinstance(entry, FuzzInput) for entry in load_corpus().values())

"""`toolgate docs`: taking documents in, listing, searching and removing them."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Command, Serve
from tests.documents.libraries import docx, pdf
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS, USAGE_ERROR
from toolgate.types import Json

VPN = "# VPN\n\nThe token comes from IT.\n\n## Reset\n\nCall the desk to reset the token.\n"


@pytest.fixture
def place(folder: Path) -> Path:
    """A working folder without servers, and a folder of documents in it."""
    (folder / "toolgate.toml").write_text("[serve]\nport = 0\n", "utf-8")
    guides = folder / "guides"
    (guides / "hr").mkdir(parents=True)
    (guides / "vpn.md").write_text(VPN, "utf-8")
    (guides / "hr" / "leave.html").write_text("<h1>Leave</h1><p>30 days a year.</p>", "utf-8")
    (guides / "hr" / "plan.pdf").write_bytes(pdf("Budget", "The budget is 5 million."))
    (guides / "logo.png").write_bytes(b"\x89PNG")
    (guides / ".hidden.md").write_text("secret", "utf-8")
    return folder


def test_a_folder_is_taken_in_found_renewed_and_followed(command: Command, place: Path) -> None:
    first = command("docs", "add", "guides", "-c", "docs", "--description", "How we work")
    assert (first.status, first.out) == (SUCCESS, "docs: 3 added.\n")
    assert "1 file skipped" in first.err

    found = command("docs", "search", "how", "many", "days", "of", "leave")
    assert found.out.startswith('[1] guides/hr/leave.html, "Leave"  (docs)')
    page = command("docs", "search", "budget", "million", "--json").json["documents"][0]["metadata"]
    assert (page["source"], page["page"]) == ("guides/hr/plan.pdf", 2)
    assert page["citation"] == "guides/hr/plan.pdf, page 2"

    (place / "guides" / "hr" / "leave.html").unlink()
    (place / "guides" / "vpn.md").write_text(VPN + "\nNew words.", "utf-8")
    (place / "guides" / "new.txt").write_text("Something new.", "utf-8")
    again = command("docs", "add", "guides", "-c", "docs", "--json").json
    assert again["added"] == ["guides/new.txt"]
    assert again["replaced"] == ["guides/vpn.md"]
    assert again["unchanged"] == ["guides/hr/plan.pdf"]
    assert again["removed"] == ["guides/hr/leave.html"]
    assert again["skipped"] == ["guides/logo.png"]

    (place / "guides" / "new.txt").unlink()
    assert command("docs", "refresh").out == "docs: 2 unchanged, 1 removed.\n"
    listed = command("docs", "list", "--json").json["documents"]
    assert [row["source"] for row in listed] == ["guides/hr/plan.pdf", "guides/vpn.md"]
    shown = command("docs", "collections")
    assert shown.out.splitlines() == [
        "Name\tDocuments\tPassages\tModel\tMetric\tVector store\tDescription",
        "docs\t2\t3\tbundled\tcosine\tsqlite\tHow we work",
    ]


def test_files_that_cannot_be_read_do_not_stop_the_others(command: Command, place: Path) -> None:
    guides = place / "guides"
    (guides / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (guides / "empty.md").write_bytes(b"")
    (guides / "locked.pdf").write_bytes(pdf("secret", user_password="pw"))
    with (guides / "huge.txt").open("wb") as huge:
        huge.truncate(500 * 2**20)  # a hole: no disk is used
    done = command("docs", "add", "guides", "no such file")
    assert done.status == FAILED
    assert done.out == "documents: 3 added.\n"
    for words in (
        "guides/broken.pdf cannot be read, it is broken",
        "guides/empty.md is empty",
        "guides/locked.pdf is encrypted",
        "guides/huge.txt has 500 MB. Allowed: 64 MB (setting documents.max_file_mb).",
        "There is no file or folder 'no such file'.",
    ):
        assert words in done.err


def test_single_files_are_removed_by_source_and_by_path(command: Command, place: Path) -> None:
    (place / "a.docx").write_bytes(docx(("Heading1", "A"), ("", "Alpha.")))
    (place / "b.csv").write_text("name,city\nAnna,Bern\n", "utf-8")
    assert command("docs", "add", "a.docx", "b.csv").out == "documents: 2 added.\n"
    assert command("docs", "remove", "b.csv").out == "Removed 1 document from documents.\n"
    assert command("docs", "remove", str(place / "a.docx"), "--json").json == {
        "removed": ["a.docx"]
    }
    assert command("docs", "remove", "a.docx").status == NO_RESULT
    assert command("docs", "list").status == NO_RESULT
    gone = command("docs", "remove", "--all")
    assert (gone.out, gone.err) == ("Removed documents with no document.\n", "")
    assert command("docs", "collections").status == NO_RESULT


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("add", "nothing.md"), "There is no file or folder 'nothing.md'"),
        (("add", "guides", "-c", "a b"), "is not a name for a collection"),
        (("add", "guides", "--model", "none"), "There is no embedding model 'none'"),
        (("add", "guides", "--place", "pgvector"), "does not match Toolgate's store"),
        (("add", "guides", "--metric", "near"), "There is no metric 'near'"),
        (("remove",), "Either documents or --all"),
        (("list", "-c", "none"), "There is no collection 'none'"),
        (("search", "x", "--type", "best"), "There is no search type 'best'"),
    ],
)
def test_wrong_use_says_what_is_right(
    command: Command, place: Path, argv: tuple[str, ...], words: str
) -> None:
    done = command("docs", *argv)
    assert done.status == USAGE_ERROR
    assert words in done.err


def test_nothing_to_search_says_how_to_begin(command: Command, place: Path) -> None:
    done = command("docs", "search", "anything")
    assert done.status == NO_RESULT
    assert "toolgate docs add FILES" in done.err


def test_vectors_are_made_anew_for_another_metric(command: Command, place: Path) -> None:
    command("docs", "add", "guides/vpn.md")
    done = command("docs", "reindex", "documents", "--metric", "euclidean")
    assert done.out == "Reindexed 1 passage of documents: bundled, euclidean, in sqlite.\n"
    found = command("docs", "search", "reset token", "--threshold", "0.99", "--json")
    assert (found.status, found.json["documents"]) == (NO_RESULT, [])


class Pages(BaseHTTPRequestHandler):
    """A small site."""

    def do_GET(self) -> None:
        if self.path == "/old":
            self.send_response(302)
            self.send_header("Location", "/guide")
            self.end_headers()
            return
        is_there = self.path == "/guide"
        body = b"<title>Guide</title><h1>Printers</h1><p>They are on floor 2.</p>"
        self.send_response(200 if is_there else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is there
        del format, args


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_pages_of_the_web_are_taken_in(command: Command, place: Path, site: str) -> None:
    done = command("docs", "add", f"{site}/old", f"{site}/missing", "--json")
    assert done.status == FAILED
    assert done.json["added"] == [f"{site}/old"]
    [failed] = done.json["failed"]
    assert "responds with status 404" in failed["reason"]
    [known] = command("docs", "list", "--json").json["documents"]
    assert (known["title"], known["media_type"]) == ("Guide", "text/html")
    found = command("docs", "search", "where", "is", "the", "printer")
    assert found.out.startswith(f'[1] {site}/old, "Printers"')
    assert command("docs", "add", f"{site}/guide").status == SUCCESS
    assert command("docs", "remove", f"{site}/guide").status == SUCCESS


@pytest.mark.real
def test_a_running_gateway_takes_documents_in_and_answers_with_them(
    command: Command, place: Path, serve: Serve
) -> None:
    (place / "toolgate.toml").write_text(
        '[serve]\nport = 0\n[packs]\nenable = ["documents"]\n', "utf-8"
    )
    serving = serve()
    serving.line("documents  ready")
    assert command("docs", "add", "guides").out == "documents: 3 added.\n"
    keys = [tool["toolKey"] for tool in command("tools", "--json").json]
    assert keys == ["documents:retriever", "documents:storage"]
    told = command("call", "documents:retriever", "--arg", "question=Who gives me a VPN token?")
    assert 'source="guides/vpn.md"' in told.out
    hidden = command("call", "documents:grade", "--arg", "question=x")
    assert hidden.status == NO_RESULT
    (place / "guides" / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    assert command("docs", "add", "guides").status == FAILED
    [failure] = failures_at(serving.address)
    assert failure["source"] == "guides/broken.pdf"
    assert "it is broken" in failure["reason"]
    (place / "guides" / "broken.pdf").write_bytes(pdf("Plan", "It is whole."))
    assert command("docs", "add", "guides").status == SUCCESS
    assert failures_at(serving.address) == []
    assert serving.end() == 0


def failures_at(address: str) -> list[Json]:
    """The documents that a gateway says could not be imported."""
    with urlopen(f"{address}/api/v1/collections/documents/failures") as answer:
        return json.load(answer)["failures"]


def test_doctor_says_whether_collections_can_be_searched(command: Command, place: Path) -> None:
    """One whose model is switched off is a problem, and says what to do."""
    command("docs", "add", "guides", "-c", "docs")
    checks = {one["name"]: one for one in command("doctor", "--json").json["checks"]}
    assert checks["documents"]["found"] == "1 collection can be searched, 3 documents."

    off = '[documents.models.bundled]\nembedder = "bundled"\nenabled = false\n'
    with (place / "toolgate.toml").open("a", encoding="utf-8") as file:
        file.write(off)
    done = command("doctor", "--json")
    checks = {one["name"]: one for one in done.json["checks"]}
    assert done.status == FAILED
    assert "switched off" in checks["documents docs"]["found"]
    assert "documents" not in checks

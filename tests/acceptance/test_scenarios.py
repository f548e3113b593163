"""The source document's questions and patterns, on real documents and a real database.

The model is scripted: it says which tool it takes; everything else is real. What is checked is what
the model was sent, and what its user gets.
"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.chat.chat_gateway import (
    RETRIEVER,
    ChatGateway,
    add_guide,
    chatting,
    check_pairs,
    contents,
    grading,
    offered,
    roles,
)
from toolgate.settings import ConnectionTable, PackSettings, Settings
from toolgate.types import Json

QUERY = "sql__query"
SECURITY = """# Transparent data encryption

To enable transparent data encryption, create a keystore, open it, set a master key, and encrypt the
tablespaces with ALTER TABLESPACE ENCRYPTION ONLINE.

# Users

Accounts that were not used for 90 days have to be locked.
"""
ADMIN = """# PGA memory

The recommended PGA_AGGREGATE_TARGET is 20 % of the memory for OLTP, so 13 GB with 64 GB of RAM, and
40 to 50 % for data warehouses.

# Real Application Clusters

To configure Oracle RAC, install Grid Infrastructure on each node, then create the cluster database.

# Vector index accuracy

The accuracy of a vector index is determined with INDEX_ACCURACY_QUERY.

# Patching

The database is patched with opatch while it is shut down.
"""
TABLES = """
CREATE TABLE dba_users (username TEXT PRIMARY KEY, created TEXT, account_status TEXT);
INSERT INTO dba_users VALUES ('SCOTT', '2026-11-02', 'OPEN'), ('MAINT', '2020-01-01', 'LOCKED');
CREATE TABLE dba_sys_privs (grantee TEXT, privilege TEXT);
INSERT INTO dba_sys_privs VALUES ('SCOTT', 'CREATE SESSION'), ('SCOTT', 'CREATE TABLE');
CREATE TABLE parameters (name TEXT PRIMARY KEY, value TEXT);
INSERT INTO parameters VALUES ('pga_aggregate_target', '8 GB');
"""


def look_up(question: str = "as the model puts it", text: str = "") -> Json:
    return {"text": text, "tool_calls": [{"name": RETRIEVER, "arguments": {"question": question}}]}


def ask(sql: str, text: str = "") -> Json:
    return {"text": text, "tool_calls": [{"name": QUERY, "arguments": {"sql": sql}}]}


@asynccontextmanager
async def assistant(folder: Path, *steps: Json, **more: Any) -> AsyncIterator[ChatGateway]:
    """A gateway with two guides, a database, and a model that says these things."""
    path = folder / "database.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
    settings = Settings(
        packs=PackSettings(enable=("documents", "sql"), disable=("schema",)),
        connections={"default": ConnectionTable(url=f"sqlite:///{path}")},
    )
    chosen = {
        "when": {"user": "Which of them may hold the answer?"},
        "reply": {"text": '["SECURITY_DOCS", "ADMIN_GUIDES"]'},
    }
    chat = {"rephrase": False, **more}
    async with chatting(chosen, *steps, settings=settings, chat=chat) as place:
        await add_guide(place, SECURITY, "SECURITY_DOCS")
        await add_guide(place, ADMIN, "ADMIN_GUIDES")
        yield place


def answered(place: ChatGateway) -> Json:
    """What the model was sent for its last answer."""
    return next(body for body in reversed(place.model.chats) if body.get("tools"))


# The five example questions


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("How do I configure Oracle RAC?", "install Grid Infrastructure on each node"),
        ("What are the recommended PGA settings?", "20 % of the memory for OLTP"),
    ],
)
async def test_a_question_about_concepts_is_answered_from_documents(
    tmp_path: Path, question: str, passage: str
) -> None:
    async with assistant(
        tmp_path, grading("yes"), look_up(), {"text": "As the guide says."}
    ) as place:
        body = await place.say(question, thread="t")
        history = await place.history("t")

    assert body["choices"][0]["message"]["content"] == "As the guide says."
    assert {RETRIEVER, QUERY} <= set(offered(answered(place)))
    assert passage in str(answered(place)["messages"])
    check_pairs(answered(place))
    documents = str(history)
    assert passage in documents
    assert "ADMIN_GUIDES" in documents


@pytest.mark.parametrize(
    ("question", "sql", "row"),
    [
        (
            "Show me all users created last month",
            "SELECT username, created FROM dba_users WHERE created >= '2026-10-22'",
            "SCOTT    | 2026-11-02",
        ),
        (
            "What is the current value of PGA_AGGREGATE_TARGET?",
            "SELECT value FROM parameters WHERE name = 'pga_aggregate_target'",
            "8 GB",
        ),
    ],
)
async def test_a_question_for_data_is_answered_from_the_database(
    tmp_path: Path, question: str, sql: str, row: str
) -> None:
    async with assistant(tmp_path, ask(sql), {"text": "As the database says."}) as place:
        body = await place.say(question, thread="t")

    assert body["choices"][0]["message"]["content"] == "As the database says."
    assert roles(place.model.last) == ["system", "user", "assistant", "tool"]
    (result,) = contents(place.model.last, "tool")
    assert row in result
    assert f"Executed: {sql}" in result
    assert "INDEX_ACCURACY_QUERY" not in str(place.model.chats)


async def test_a_question_that_needs_both_is_answered_from_both(tmp_path: Path) -> None:
    async with assistant(
        tmp_path,
        grading("yes"),
        look_up(),
        ask("SELECT value FROM parameters WHERE name = 'pga_aggregate_target'"),
        {"text": "8 GB are set, 13 GB are recommended."},
    ) as place:
        text = await place.text("Is our PGA configured per best practices?", thread="t")

    assert text == "8 GB are set, 13 GB are recommended."
    sent = str(place.model.last["messages"])
    assert "13 GB with 64 GB of RAM" in sent
    assert "8 GB" in contents(place.model.last, "tool")[-1]
    check_pairs(place.model.last)


# The three patterns


async def test_pattern_1_documents_alone(tmp_path: Path) -> None:
    """Documents of both collections are graded, quoted for this turn, and named with the answer."""
    async with assistant(
        tmp_path, grading("yes"), look_up("How do I enable TDE?"), {"text": "Create a keystore."}
    ) as place:
        events = await place.stream(
            "How do I enable transparent data encryption in Oracle Database?",
            thread="t",
            **{"x-toolgate-events": "1"},
        )

    metadata = next(value for name, value in events if name == "toolgate.vs_metadata")
    assert "SECURITY_DOCS" in str(metadata)
    graded = next(body for body in place.model.chats if "Do the documents below" in str(body))
    assert "How do I enable transparent data encryption" in str(graded)
    assert "create a keystore, open it" in str(answered(place)["messages"])


async def test_pattern_2_a_follow_up_sees_the_rows_of_the_turn_before(tmp_path: Path) -> None:
    """Rows stay in the conversation: the second statement rests on the first one's rows."""
    first = "SELECT username, created FROM dba_users WHERE created >= '2026-10-23'"
    second = "SELECT privilege FROM dba_sys_privs WHERE grantee = 'SCOTT' ORDER BY privilege"
    async with assistant(
        tmp_path,
        ask(first),
        {"text": "Only SCOTT."},
        ask(second),
        {"text": "SCOTT may log in and create tables."},
    ) as place:
        await place.say("Show me all users created in the last 30 days", thread="t")
        text = await place.text("What privileges does the first user have?", thread="t")
        history = await place.history("t")

    assert text == "SCOTT may log in and create tables."
    assert roles(place.model.last) == [
        *("system", "user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool"),
    ]
    rows, privileges = contents(place.model.last, "tool")
    assert "SCOTT    | 2026-11-02" in rows
    assert "CREATE SESSION" in privileges
    assert "CREATE TABLE" in privileges
    assert "created >= " in str(history)
    assert "ORDER BY privilege" in str(history)
    check_pairs(place.model.last)


async def test_pattern_3_documents_then_the_database_in_one_turn(tmp_path: Path) -> None:
    """Both in one turn, with words of the model between; documents are gone in the next one."""
    async with assistant(
        tmp_path,
        grading("yes"),
        look_up(),
        ask(
            "SELECT value FROM parameters WHERE name = 'pga_aggregate_target'",
            text="Recommended are 13 GB.",
        ),
        {"text": "Set are 8 GB, below that."},
        {"text": "You are welcome."},
    ) as place:
        text = await place.text(
            "Based on our documentation, what should PGA_AGGREGATE_TARGET be set to? Then show me "
            "the current value in our database.",
            thread="t",
        )
        during = place.model.last
        await place.say("Thanks", thread="t")
        later = place.model.last

    assert text.index("Recommended are 13 GB.") < text.index("Set are 8 GB, below that.")
    assert "13 GB with 64 GB of RAM" in str(during["messages"])
    assert "8 GB" in contents(during, "tool")[-1]
    assert "13 GB with 64 GB of RAM" not in str(later["messages"])
    assert "8 GB" in str(contents(later, "tool"))
    check_pairs(during)
    check_pairs(later)


# The example of three turns


async def test_three_turns_have_the_documents_of_their_own_topic_alone(tmp_path: Path) -> None:
    """A greeting leaves no trace, and documents of one topic are not in the turn of another."""
    no = {"when": {"user": "Question: Hello my name is Mike"}, "reply": {"text": "no"}}
    async with assistant(
        tmp_path,
        no,
        grading("yes"),
        {"text": "Hello Mike."},
        {"text": "With INDEX_ACC."},
        {"text": "With a tool."},
        retrieval="forced",
        top_k=1,
    ) as place:
        await place.say("Hello my name is Mike", thread="t")
        greeting = place.model.last
        await place.say("How do I determine vector index accuracy?", thread="t")
        accuracy = place.model.last
        await place.say("How do I patch Oracle database?", thread="t")
        patching = place.model.last

    assert roles(greeting) == ["system", "user"]
    assert "INDEX_ACCURACY_QUERY" in str(accuracy["messages"])
    assert "Hello my name is Mike" in str(accuracy["messages"])
    assert "patched with opatch" in str(patching["messages"])
    assert "INDEX_ACCURACY_QUERY" not in str(patching["messages"])


# What goes wrong


async def test_a_statement_that_changes_anything_is_told_to_the_model_and_not_run(
    tmp_path: Path,
) -> None:
    async with assistant(
        tmp_path, ask("DELETE FROM dba_users"), {"text": "I may only read."}
    ) as place:
        text = await place.text("Delete all users from the database", thread="t")
        rows = contents(place.model.last, "tool")

    assert text == "I may only read."
    assert rows[0].startswith("Not run: The statement begins with DELETE; allowed are queries.")
    with closing(sqlite3.connect(tmp_path / "database.db")) as database:
        assert database.execute("SELECT count(*) FROM dba_users").fetchone() == (2,)


async def test_a_database_that_is_gone_leaves_the_thread_usable(tmp_path: Path) -> None:
    """Issue: a friendly sentence, the thread still usable, nothing lost."""
    sql = "SELECT count(*) AS users FROM dba_users"
    async with assistant(
        tmp_path, ask(sql), {"text": "It is gone."}, ask(sql), {"text": "There are 2."}
    ) as place:
        path = tmp_path / "database.db"
        path.rename(tmp_path / "elsewhere.db")
        await place.say("How many users are in the database?", thread="t")
        gone = contents(place.model.last, "tool")[-1]
        (tmp_path / "elsewhere.db").rename(path)
        text = await place.text("And now?", thread="t")

    assert "the file is not there or may not be read" in gone
    assert str(tmp_path) not in gone
    assert text == "There are 2."
    assert "2" in contents(place.model.last, "tool")[-1]
    check_pairs(place.model.last)


async def test_questions_to_databases_are_limited_in_a_turn(tmp_path: Path) -> None:
    """Issue: SQL calls per turn 10, a setting."""
    steps = [ask(f"SELECT {number} AS n") for number in range(4)]
    async with assistant(tmp_path, *steps, {"text": "That was enough."}, max_sql_calls=2) as place:
        await place.say("Count in the database", thread="t")
        history = await place.history("t")

    ran = [one for one in history["messages"] if "Executed: SELECT" in str(one.get("content"))]
    assert len(ran) == 2

"""`toolgate pack sql check`: statements judged without any database."""

import json
from pathlib import Path

from tests.cli.conftest import Command, Run


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_statements_from_standard_input_get_a_line_each_in_their_order(toolgate: Run) -> None:
    rows = lines({"id": "a", "sql": "select 1"}, {"id": 2, "sql": "delete from t"})

    done = toolgate("pack", "sql", "check", "--dialect", "postgres", "--json", stdin=rows)

    assert done.returncode == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": "a", "allowed": True, "reason": "One statement that only reads."},
        {
            "id": 2,
            "allowed": False,
            "reason": "The statement begins with DELETE; allowed are queries.",
        },
    ]


def test_statements_come_from_a_file_too(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "statements.jsonl"
    path.write_text(lines({"id": "x", "sql": "select é from t"}) + "\n", encoding="utf-8")

    done = command("pack", "sql", "check", "--dialect", "sqlite", str(path))

    assert (done.status, json.loads(done.out)["allowed"]) == (0, True)


def test_lines_that_are_none_are_named_and_the_others_are_judged(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "statements.jsonl"
    path.write_bytes(
        b"nonsense\n[1]\n"
        + lines({"id": 1}, {"sql": "select 1"}, {"id": 3, "sql": 5}).encode()
        + b'\xff\xfe\n{"id": 4, "sql": "select 1"}\n'
    )

    done = command("pack", "sql", "check", "--dialect", "any", str(path))

    assert done.status == 2
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [4]
    said = done.err.splitlines()
    assert said[0].startswith("Line 1 cannot be read: it is no JSON (")
    assert said[1:] == [
        'Line 2 cannot be read: it is not an object; expected {"id": …, "sql": …}.',
        'Line 3 cannot be read: it has no text "sql".',
        'Line 4 cannot be read: it has no "id".',
        'Line 5 cannot be read: it has no text "sql".',
        "Line 6 cannot be read: it is not UTF-8.",
    ]


def test_known_columns_tell_columns_from_functions(command: Command, tmp_path: Path) -> None:
    """Issue: the known columns come with each statement."""
    known = {"orders": ["id", "total"], "sales.regions": ["name"]}
    path = tmp_path / "statements.jsonl"
    path.write_text(
        lines(
            {"id": 1, "sql": "select o.id, (o).total from orders o", "columns": known},
            {"id": 2, "sql": "select o.wipe from orders o", "columns": known},
            {"id": 3, "sql": "select (o).wipe from orders o", "columns": known},
            {"id": 4, "sql": "select r.name from sales.regions r", "columns": known},
            {"id": 5, "sql": "select c.id from customers c", "columns": known},
            {"id": 6, "sql": "select o.id from orders o"},
            {"id": 7, "sql": "select o.id from orders o", "columns": None},
            {"id": 8, "sql": "select o.id from orders o", "columns": {}},
        ),
        encoding="utf-8",
    )

    done = command("pack", "sql", "check", "--dialect", "postgres", str(path))

    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {row["id"] for row in rows if row["allowed"]} == {1, 4, 6, 7}
    assert rows[1]["reason"] == (
        "The name o.wipe may call a function: no column of this name is known."
    )


def test_columns_of_another_shape_are_named(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "statements.jsonl"
    shapes = (["id"], "id", {"orders": "id"}, {"orders": [1]}, {"orders": None}, 5, False)
    path.write_text(
        lines(*({"id": 1, "sql": "select 1", "columns": shape} for shape in shapes)),
        encoding="utf-8",
    )

    done = command("pack", "sql", "check", "--dialect", "postgres", str(path))

    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        f'Line {number} cannot be read: its "columns" are not lists of strings by table: '
        '{"table": ["name", …]}.'
        for number in range(1, len(shapes) + 1)
    ]


def test_a_dialect_or_a_file_that_is_none_is_named(command: Command) -> None:
    dialect = command("pack", "sql", "check", "--dialect", "cobol")
    path = command("pack", "sql", "check", "--dialect", "oracle", "nowhere.jsonl")

    assert dialect.status == 2
    assert "There is no dialect 'cobol'. Dialects: postgres, sqlite, oracle" in dialect.err
    assert "There is no file 'nowhere.jsonl'." in path.err

"""The first released schema: all tables and the default project.

Written out, not taken from `tables`: what was released stays as it was.
"""

from collections.abc import Sequence
from pathlib import Path
from string import Template

from alembic import op

revision: str = "0025"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_STATEMENTS = Path(__file__).parents[1] / "first_schema.sql"
_TYPES = {
    "sqlite": {"text": "TEXT", "bytes": "BLOB", "double": "DOUBLE", "row_number": "INTEGER"},
    "postgresql": {
        "text": 'TEXT COLLATE "C"',
        "bytes": "BYTEA",
        "double": "DOUBLE PRECISION",
        "row_number": "BIGINT",
    },
}
"""Column types that the databases name differently."""


def upgrade() -> None:
    """Make all tables and the default project."""
    connection = op.get_bind()
    template = Template(_STATEMENTS.read_text(encoding="utf-8"))
    for statement in template.substitute(_TYPES[connection.dialect.name]).split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)

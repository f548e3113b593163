"""Shared by all tables: metadata, column types, schema version."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

REVISIONS = ("0025",)
"""Every released schema, oldest first; the last entry is the current one.

Four digits, so that they sort. Smaller ones were used during development, before the first release.
"""

VERSION_TABLE = "toolgate_schema"
"""Table of Alembic's revision; a name of our own, since databases may be shared."""

# Sorted by code point; PostgreSQL would otherwise sort by the language of the database.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def project_column(*, primary_key: bool = False) -> Column[str]:
    """The reference to the project of a row."""
    return Column(
        "project_id",
        TEXT,
        ForeignKey("projects.project_id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


ROW_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # there the number of the row

versions = Table(
    VERSION_TABLE,
    MetaData(),  # Alembic's own: not compared with the migrations
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)

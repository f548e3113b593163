"""Finds out from the catalog of PostgreSQL which names in a statement run user-defined code."""

from typing import Any, Final

import sqlalchemy as sa

from toolgate.databases.sql_guard import CatalogObject, PostgresCatalog, PostgresNames

_HARMLESS: Final = """
    p.provolatile <> 'v' AND NOT p.prosecdef AND (
        p.oid < 16384 AND p.provolatile = 'i'
        OR EXISTS (
            SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
            AND d.objid = p.oid AND d.deptype = 'e'))
"""
"""Immutable or stable functions of extensions, and immutable functions of PostgreSQL itself,
whose built-in objects have oids below 16384.
https://www.postgresql.org/docs/18/system-catalog-initial-data.html"""

_OUTSIDE: Final = "n.nspname NOT IN ('pg_catalog', 'information_schema')"
_VISIBLE: Final = "n.nspname = ANY (pg_catalog.current_schemas(false))"

_FUNCTIONS: Final = f"""
    SELECT n.nspname, p.proname, n.nspname || '.' || p.proname, {_VISIBLE}, {_HARMLESS}
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE p.proname = ANY (CAST(:words AS name[])) AND {_OUTSIDE}
"""  # noqa: S608 -- made of constants
_OPERATORS: Final = f"""
    SELECT n.nspname, o.oprname, f.nspname || '.' || p.proname, {_VISIBLE}, {_HARMLESS}
    FROM pg_catalog.pg_operator o
    JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
    JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
    JOIN pg_catalog.pg_namespace f ON f.oid = p.pronamespace
    WHERE o.oprname = ANY (CAST(:operators AS name[])) AND {_OUTSIDE}
"""  # noqa: S608
_PLAIN: Final = """
    (t.oid < 16384 OR t.typtype = 'e' OR t.typtype = 'b' AND EXISTS (
        SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass
        AND d.objid = t.oid AND d.deptype = 'e'))
"""
"""Built-in types, enums, and base types of extensions."""
_TYPES: Final = f"""
    SELECT n.nspname, w.typname, '', {_VISIBLE}, CASE t.typtype
        WHEN 'd' THEN t.typbasetype < 16384 AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_constraint c WHERE c.contypid = t.oid AND c.contype = 'c')
        WHEN 'c' THEN NOT EXISTS (
            SELECT FROM pg_catalog.pg_attribute a
            JOIN pg_catalog.pg_type b ON b.oid = a.atttypid
            JOIN pg_catalog.pg_type t ON t.oid = COALESCE(NULLIF(b.typelem, 0), b.oid)
            WHERE a.attrelid = w.typrelid AND a.attnum > 0 AND NOT {_PLAIN})
        ELSE {_PLAIN} END
    FROM pg_catalog.pg_type w
    JOIN pg_catalog.pg_namespace n ON n.oid = w.typnamespace
    JOIN pg_catalog.pg_type t
        ON t.oid = CASE WHEN w.typcategory = 'A' THEN w.typelem ELSE w.oid END
    WHERE w.typname = ANY (CAST(:words AS name[])) AND {_OUTSIDE}
"""  # noqa: S608
_MET: Final = """
    WITH RECURSIVE met (oid, col) AS (
        SELECT a.atttypid, a.attname FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        WHERE c.relname = ANY (CAST(:words AS name[])) AND a.attnum > 0
        UNION SELECT t.oid, CAST('' AS name) FROM pg_catalog.pg_type t
        WHERE t.typname = ANY (CAST(:words AS name[]))
        UNION SELECT part.oid, met.col FROM met
        JOIN pg_catalog.pg_type t ON t.oid = met.oid
        CROSS JOIN LATERAL (
            SELECT t.typelem WHERE t.typelem <> 0
            UNION ALL SELECT t.typbasetype WHERE t.typbasetype <> 0
            UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r
            WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
            UNION ALL SELECT d.refobjid FROM pg_catalog.pg_constraint k
            JOIN pg_catalog.pg_depend d
                ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass
                AND d.objid = k.oid AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass
            WHERE k.contypid = t.oid
            UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
            WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND t.typrelid <> 0) part (oid)
    )
"""
"""Types that values of the statement can have, with their parts, and the columns they are from."""
_CASTS: Final = f"""
    {_MET}
    SELECT n.nspname, s.typname, f.nspname || '.' || p.proname, true, {_HARMLESS} OR EXISTS (
        SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
        AND d.objid = p.oid AND d.deptype = 'i')
    FROM pg_catalog.pg_cast c
    JOIN pg_catalog.pg_type s ON s.oid = c.castsource
    JOIN pg_catalog.pg_type t ON t.oid = c.casttarget
    JOIN pg_catalog.pg_namespace n ON n.oid = s.typnamespace
    JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc
    JOIN pg_catalog.pg_namespace f ON f.oid = p.pronamespace
    WHERE c.oid >= 16384 AND (
        c.castsource IN (SELECT oid FROM met)
        OR c.castsource < 16384 AND (c.castcontext = 'i' OR t.oid < 16384
            OR t.typname = ANY (CAST(:words AS name[]))))
"""  # noqa: S608
"""Casts from types that values of the statement can have; `to_json` and `||` use them as well.

PostgreSQL itself makes the casts of ranges to multiranges, whose functions belong to the type.
"""
_COMPARISONS: Final = f"""
    {_MET}
    SELECT n.nspname, t.typname, f.nspname || '.' || p.proname, true, {_HARMLESS}
    FROM pg_catalog.pg_opclass k
    JOIN pg_catalog.pg_type t ON t.oid = k.opcintype
    JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    CROSS JOIN LATERAL (
        SELECT s.amproc FROM pg_catalog.pg_amproc s WHERE s.amprocfamily = k.opcfamily
        UNION SELECT o.oprcode FROM pg_catalog.pg_amop s
        JOIN pg_catalog.pg_operator o ON o.oid = s.amopopr
        WHERE s.amopfamily = k.opcfamily) used (oid)
    JOIN pg_catalog.pg_proc p ON p.oid = used.oid
    JOIN pg_catalog.pg_namespace f ON f.oid = p.pronamespace
    WHERE k.oid >= 16384 AND p.oid >= 16384 AND k.opcintype IN (SELECT oid FROM met)
"""  # noqa: S608
"""Functions of operator classes, which ORDER BY, DISTINCT, UNION and comparisons of rows use."""
_CHECKS: Final = f"""
    {_MET}
    SELECT DISTINCT n.nspname, met.col, f.nspname || '.' || p.proname, true, {_HARMLESS}
    FROM met
    JOIN pg_catalog.pg_constraint k ON k.contypid = met.oid
    JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
    JOIN pg_catalog.pg_depend u
        ON u.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND u.objid = k.oid
    LEFT JOIN pg_catalog.pg_operator o
        ON u.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass AND o.oid = u.refobjid
    JOIN pg_catalog.pg_proc p
        ON p.oid = o.oprcode
        OR u.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = u.refobjid
    JOIN pg_catalog.pg_namespace f ON f.oid = p.pronamespace
    WHERE met.col <> '' AND p.oid >= 16384
"""  # noqa: S608
"""Functions that the domains of columns run to check a value, by column."""
_COLUMNS: Final = """
    SELECT n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid), a.attname, field.attname
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a
        ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_attribute field
        ON field.attrelid = t.typrelid AND t.typtype = 'c' AND field.attnum > 0
        AND NOT field.attisdropped
    WHERE c.relname = ANY (CAST(:words AS name[])) AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
"""


def read_postgres_catalog(opened: sa.Connection, names: PostgresNames) -> PostgresCatalog:
    """The objects outside `pg_catalog` that the names of a statement refer to.

    Args:
        opened: A connection in a transaction.
        names: Names in the statement.

    Raises:
        SQLAlchemyError: The catalog cannot be read.
    """
    parameters = {"words": sorted(names.words), "operators": sorted(names.operators)}

    def objects(query: str, *used: str) -> tuple[CatalogObject, ...]:
        rows = opened.execute(sa.text(query), {name: parameters[name] for name in used})
        return tuple(
            CatalogObject(
                schema=schema,
                name=name,
                function=function,
                is_visible=visible,
                is_harmless=harmless,
            )
            for schema, name, function, visible, harmless in rows
        )

    columns = opened.execute(sa.text(_COLUMNS), {"words": parameters["words"]})
    return PostgresCatalog(
        functions=objects(_FUNCTIONS, "words"),
        operators=objects(_OPERATORS, "operators"),
        types=objects(_TYPES, "words"),
        casts=objects(_CASTS, "words"),
        comparisons=objects(_COMPARISONS, "words"),
        checks=objects(_CHECKS, "words"),
        columns=_columns_by_table(columns),
    )


def _columns_by_table(rows: sa.CursorResult[Any]) -> dict[str, set[str]]:
    """Columns by table name, with and without its schema."""
    columns: dict[str, set[str]] = {}
    row: tuple[str, str, bool, str, str | None]
    for row in map(tuple, rows):
        schema, table, is_visible, column, field = row
        names = {column} if field is None else {column, f"{column}.{field}"}
        for key in (f"{schema}.{table}", table)[: 1 + is_visible]:
            columns.setdefault(key, set()).update(names)
    return columns

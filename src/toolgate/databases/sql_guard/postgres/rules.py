"""Which functions, operators and types a statement for PostgreSQL may use."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from toolgate.databases.sql_guard.dialects import words
from toolgate.databases.sql_guard.postgres.user_defined import PostgresCatalog
from toolgate.databases.sql_guard.refused import StatementRefusedError

_OPERATORS = words(
    """
    !! !~ !~* !~~ !~~* != # ## #- #> #>> % & && &< &<| &> * *< *<= *<> *= *> *>= + - -> ->> -|- /
    < <-> << <<= <<| <= <> <@ <^ = > >= >> >>= >^ ? ?# ?& ?- ?-| ?| ?|| @ @-@ @> @? @@ @@@ ^ ^@ |
    |&> |/ |>> || ||/ ~ ~* ~<=~ ~<~ ~= ~>=~ ~>~ ~~ ~~*
    """
)
"""Operators of `pg_catalog` in PostgreSQL 18: `SELECT oprname FROM pg_operator`."""

_TYPES = words(
    """
    aclitem bit bool box bpchar bytea char cid cidr circle date datemultirange daterange float4
    float8 gtsvector inet int2 int2vector int4 int4multirange int4range int8 int8multirange
    int8range interval json jsonb jsonpath line lseg macaddr macaddr8 money name numeric
    nummultirange numrange oid oidvector path pg_lsn pg_node_tree pg_snapshot point polygon record
    refcursor regclass regcollation regconfig regdictionary regnamespace regoper regoperator regproc
    regprocedure regrole regtype text tid time timestamp timestamptz timetz tsmultirange tsquery
    tsrange tstzmultirange tstzrange tsvector txid_snapshot unknown uuid varbit varchar xid xid8 xml
    """
)
"""Types of `pg_catalog` in PostgreSQL 18 that values can have."""


@dataclass(frozen=True, kw_only=True)
class PostgresRules:
    """Names known to be harmless."""

    functions: frozenset[str]
    """Functions of `pg_catalog` without side effects."""

    allowed: frozenset[str] = frozenset()
    """User functions that change nothing, in lower case, with or without their schema."""

    catalog: PostgresCatalog | None = None
    """Objects of the database outside `pg_catalog`; None if unknown."""

    def refuse_function(self, schema: str, name: str) -> None:
        """Refuse a function that may run user code; no schema: any in the search path.

        Raises:
            StatementRefusedError: The function may run user code.
        """
        full_name = f"{schema}.{name}" if schema else name
        if full_name.lower() in self.allowed:
            return
        if schema in {"pg_catalog", "information_schema"} and name in self.functions:
            return
        if self.catalog is not None and name in self.functions | _extension_functions():
            self.catalog.refuse_functions(schema, name, self.allowed)
            if self.catalog.has_function(schema, name):
                return
        if schema or name not in self.functions:
            raise StatementRefusedError(
                "function", f"The function {full_name[:80]} is not known to be harmless"
            )

    def refuse_operator(self, schema: str, name: str) -> None:
        """Refuse an operator that may run user code; no schema: any in the search path.

        Raises:
            StatementRefusedError: The operator may run user code.
        """
        name = "<>" if name == "!=" else name
        if schema == "pg_catalog" and name in _OPERATORS:
            return
        if self.catalog is not None:
            self.catalog.refuse_operators(schema, name, self.allowed)
            if self.catalog.has_operator(schema, name):
                return
        if schema or name not in _OPERATORS:
            written = f"{schema}.{name}" if schema else name
            raise StatementRefusedError(
                "operator", f"The operator {written[:80]} is not known to be harmless"
            )

    def refuse_type(self, schema: str, name: str) -> None:
        """Refuse a type whose conversions may run user code.

        Raises:
            StatementRefusedError: Conversions of the type may run user code.
        """
        bare = name.removeprefix("_")
        if schema == "pg_catalog" and bare in _TYPES:
            return
        if self.catalog is not None:
            self.catalog.refuse_types(schema, name, self.allowed)
            if self.catalog.has_type(schema, name):
                return
        if schema or bare not in _TYPES:
            written = f"{schema}.{name}" if schema else name
            raise StatementRefusedError(
                "type", f"The type {written[:80]} is not known to be harmless"
            )


@cache
def _extension_functions() -> frozenset[str]:
    text = files("toolgate.databases.sql_guard").joinpath("functions", "postgres_extensions.txt")
    lines = (line.partition("#")[0] for line in text.read_text("utf-8").splitlines())
    return frozenset(word for line in lines for word in line.split())

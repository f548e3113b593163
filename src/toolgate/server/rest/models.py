"""Bases of the models that describe bodies, queries and answers of the REST API.

The OpenAPI document is generated from these models, so what is checked is what is published.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
)
from pydantic_core import CoreSchema

from toolgate.base.validation import Input, SchemaGenerator
from toolgate.types import DEFAULT_PROJECT, Json, json_object

MAX_PAGE: Final = 1_000
"""Most items of one page (chosen)."""

MAX_DAYS: Final = 36_500
"""Days that a report may look back: a hundred years, so that dates stay dates."""


class Body(Input):
    """The JSON object of a request."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> Json:
        """The schema, in which members that may be absent may be null."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        for name, member in schema.get("properties", {}).items():
            if name not in schema.get("required", ()):
                schema["properties"][name] = _nullable(member)
        return schema


class Query(Input):
    """The query of a request: parameters of other names are ignored."""

    model_config = ConfigDict(strict=False, extra="ignore")


class PageQuery(Query):
    """A page of a list."""

    limit: int | None = Field(
        None, ge=1, le=MAX_PAGE, description="At most this many; all by default."
    )
    cursor: str = Field("", description="next_cursor of the page before.")


class Answer(BaseModel):
    """A response, read from the attributes of what the gateway returned."""

    model_config = ConfigDict(from_attributes=True, frozen=True, defer_build=True)


class PageOf(Answer):
    """A response with a list that may come in pages."""

    next_cursor: str = Field(default="", description="Continues the list; absent on the last page.")


@dataclass(frozen=True)
class TableFields:
    """Describes a JSON object by the keys of a settings table, which reads it further inside."""

    table: type[Any]
    """Has the keys."""

    more: tuple[str, ...] = ()
    """Texts that the object has in addition."""

    only: tuple[str, ...] = ()
    """The keys that the object may have; empty: all."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> Json:
        """The schema; nothing but what is in addition is required."""
        del core_schema, handler
        schema = TypeAdapter(self.table).json_schema(schema_generator=SchemaGenerator)
        inner = json_object(schema.get("$defs"))
        derived = {item.name for item in fields(self.table) if "derived" in item.metadata}
        keys: Json = {
            name: _nullable(_inlined(part, inner))
            for name, part in schema["properties"].items()
            if name not in derived and (not self.only or name in self.only)
        }
        more = {name: {"type": "string"} for name in self.more}
        return {
            "type": "object",
            "properties": {**more, **keys},
            "required": list(self.more),
            "additionalProperties": False,
        }


def _inlined(part: Any, inner: Json) -> Any:
    """A part of a schema with the schemas that it refers to in their place."""
    if isinstance(part, dict):
        members = cast("Json", part)
        if "$ref" in members:
            return _inlined(inner[str(members["$ref"]).rpartition("/")[2]], inner)
        return {name: _inlined(member, inner) for name, member in members.items()}
    if isinstance(part, list):
        return [_inlined(item, inner) for item in cast("list[Any]", part)]
    return part


def _nullable(schema: Json) -> Json:
    null = {"type": "null"}
    if "anyOf" in schema:
        others = [option for option in schema["anyOf"] if option != null]
        return {**schema, "anyOf": [*others, null]}
    if "$ref" in schema or "enum" in schema or "const" in schema:
        return {"anyOf": [schema, null]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def _or_null(value: Any) -> Any:
    return value or None


def _project_or_null(value: Any) -> Any:
    return None if value == DEFAULT_PROJECT else value


TextOrNull = Annotated[str | None, BeforeValidator(_or_null)]
"""A text that is null where it is empty."""

NamedProject = Annotated[str | None, BeforeValidator(_project_or_null)]
"""A project; null for requests that belong to none."""

"""The OpenAPI 3.1 document of the REST API, generated from its routes and their models."""

from collections.abc import Iterable, Sequence
from inspect import getdoc
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from pydantic_core.core_schema import DataclassField, ModelField, TypedDictField

import toolgate
from toolgate.base.validation import SchemaGenerator
from toolgate.server.rest.models import Answer, PageQuery
from toolgate.server.rest.routing import Reply, RestRoute
from toolgate.types import Json


class ErrorContent(Answer):
    """What went wrong, for programs."""

    code: str
    message: str
    hint: str
    retryable: bool
    request_id: str


class Problem(Answer):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    error: ErrorContent


def openapi_document(routes: Sequence[RestRoute]) -> Json:
    """Return the OpenAPI document of these routes."""
    schemas = _Schemas(routes)
    paths: dict[str, Json] = {}
    for route in sorted(routes, key=lambda route: (route.path, route.method)):
        operation = _operation(route, schemas)
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Toolgate",
            "version": toolgate.__version__,
            "description": "Discovery and execution of tools, and looking after the gateway.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _AnswerGenerator(SchemaGenerator):
    """Schema generator that marks every dataclass field as required, since all are returned."""

    def field_is_required(
        self,
        field: ModelField | DataclassField | TypedDictField,
        total: bool,  # noqa: FBT001 - the signature of pydantic
    ) -> bool:
        """Whether an object always has a field."""
        is_written = field["type"] == "dataclass-field" and self.mode == "serialization"
        return is_written or super().field_is_required(field, total)


class _Schemas:
    """Schemas of all bodies and responses."""

    def __init__(self, routes: Iterable[RestRoute]) -> None:
        kinds: list[tuple[str, JsonSchemaMode, Any]] = [("Problem", "serialization", Problem)]
        for route in routes:
            answer = Json if route.answer is Reply else route.answer
            kinds.append((_key(route, "serialization"), "serialization", answer))
            if (body := route.body) is not None:
                kinds.append((_key(route, "validation"), "validation", body))
        self._by_key, definitions = TypeAdapter.json_schemas(
            [(key, mode, TypeAdapter(kind)) for key, mode, kind in kinds],
            ref_template="#/components/schemas/{model}",
            schema_generator=_AnswerGenerator,
        )
        self.components: Json = definitions["$defs"]

    def body(self, route: RestRoute) -> Json:
        """Return the schema of the body."""
        return self._by_key[_key(route, "validation"), "validation"]

    def answer(self, route: RestRoute) -> Json:
        """Return the schema of the response."""
        return self._by_key[_key(route, "serialization"), "serialization"]

    @property
    def problem(self) -> Json:
        """The schema of an error."""
        return self._by_key["Problem", "serialization"]

    def requires_body(self, route: RestRoute) -> bool:
        """Whether the body has a required member."""
        schema = self.body(route)
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        return bool((self.components[name] if name else schema).get("required"))


def _key(route: RestRoute, part: str) -> str:
    return f"{route.method} {route.path} {part}"


def _operation(route: RestRoute, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": route.handler.__name__,
        "summary": " ".join((getdoc(route.handler) or "").split("\n\n")[0].split()),
        "tags": [route.path.split("/")[0]],
        "parameters": _parameters(route),
        "responses": {
            str(route.status): {
                "description": "Done.",
                "content": {"application/json": {"schema": schemas.answer(route)}},
            },
            "default": {
                "description": "It was not done; `detail` says why, `error.code` for machines.",
                "content": {"application/problem+json": {"schema": schemas.problem}},
            },
        },
    }
    if route.body is not None:
        content: Json = {"schema": schemas.body(route)}
        if route.example is not None:
            content["example"] = route.example
        operation["requestBody"] = {
            "required": schemas.requires_body(route),
            "content": {"application/json": content},
        }
    return operation


def _parameters(route: RestRoute) -> list[Json]:
    parameters: list[Json] = []
    if "{name}" in route.path:
        name: Json = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        parameters.append(name)
    models = [route.parameters["query"]] if "query" in route.parameters else []
    for model in [*models, PageQuery] if route.pages else models:
        schema = TypeAdapter(model).json_schema(schema_generator=SchemaGenerator)
        for name, part in schema["properties"].items():
            words = part.pop("description", "")
            options = [option for option in part.get("anyOf", ()) if option != {"type": "null"}]
            kind = options[0] if len(options) == 1 else part
            parameters.append({"name": name, "in": "query", "description": words, "schema": kind})
    return parameters

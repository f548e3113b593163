"""Requests about prompts and resources, with their arguments for guards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from toolgate.security.guards import ArgumentKind
from toolgate.types import Json, json_object


@dataclass(frozen=True, kw_only=True)
class ContentRequest:
    """A request to one server."""

    action: Literal["complete", "prompt", "read"]
    """The name of the action in the audit."""

    server: str
    """The name of the server."""

    key: str
    """The target, `server:name` or `server:uri`."""

    method: str
    """The MCP method."""

    params: Json
    """Parameters, with the name or URI on that server."""

    arguments: Json
    """Values that guards check, by name."""

    kind: ArgumentKind
    """How guards check them."""

    with_arguments: Callable[[Json], Json]
    """Returns the parameters with other values of `arguments`."""


def prompt_request(server: str, key: str, name: str, params: Json) -> ContentRequest:
    """Create a `prompts/get` for the prompt that its server calls `name`."""
    request = {**params, "name": name}
    return ContentRequest(
        action="prompt",
        server=server,
        key=key,
        method="prompts/get",
        params=request,
        arguments=json_object(params.get("arguments")),
        kind="call",
        with_arguments=lambda values: {**request, "arguments": values},
    )


def read_request(
    server: str, uri: str, params: Json, variables: Mapping[str, str]
) -> ContentRequest:
    """Create a `resources/read` for a URI of the server.

    Args:
        server: The name of the server.
        uri: The URI on the server.
        params: Parameters of the client.
        variables: Values of the template variables in the URI.
    """
    return ContentRequest(
        action="read",
        server=server,
        key=f"{server}:{uri}",
        method="resources/read",
        params={**params, "uri": uri},
        arguments={**variables, "uri": uri},
        kind="uri",
        with_arguments=lambda values: {**params, "uri": values["uri"]},
    )


def completion_request(server: str, target: Json, params: Json) -> ContentRequest:
    """Create a `completion/complete` for a prompt or a template.

    Args:
        server: The name of the server.
        target: The member `ref`: the prompt or template, as the server names it.
        params: Parameters of the client.
    """
    argument = json_object(params.get("argument"))
    name = str(argument.get("name"))
    context = json_object(params.get("context"))
    # Otherwise a value for the argument being completed would reach the server unchecked.
    others = {
        other: value
        for other, value in json_object(context.get("arguments")).items()
        if other != name
    }

    def with_arguments(values: Json) -> Json:
        completed = {**params, "ref": target, "argument": {**argument, "value": values[name]}}
        if context:
            resolved = {other: values[other] for other in others}
            completed["context"] = {**context, "arguments": resolved}
        return completed

    values: Json = {**others, name: argument.get("value")}
    return ContentRequest(
        action="complete",
        server=server,
        key=f"{server}:{target.get('uri') or target.get('name')}",
        method="completion/complete",
        params=with_arguments(values),
        arguments=values,
        kind="completion",
        with_arguments=with_arguments,
    )

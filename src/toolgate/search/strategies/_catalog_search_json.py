"""Requests and answers of `POST /catalog/search`: one format for client and service.

`catalog_search.schema.json` defines it. Fields are only ever added, and unknown ones are
ignored, so either side may be older than the other.
"""

from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from typing import cast

from toolgate.base import json_text
from toolgate.search.answer.safe_text import clean, cut
from toolgate.search.base import Hit, SearchableTool, SearchAnswer, SearchRequest
from toolgate.search.strategies._service_error import ServiceError
from toolgate.types import Json, json_array, json_object

CATALOG_SEARCH_VERSION = 1
"""Version of the format; a missing version is 1."""

_EXPLANATION_CHARS = 300
"""Most characters of an explanation that are shown; chosen."""
_NOTICE_CHARS = 240
"""Most characters of a notice that are shown; chosen."""
_NOTICES = 3
"""Most notices that are shown; chosen."""
_LOOKED_AT = 10_000
"""Most results of an answer that are read; there is no reason to send more than requested;
chosen."""


def catalog_search_schema() -> Json:
    """Return the JSON Schema of requests and answers, under `$defs`."""
    text = (
        resources.files("toolgate.search.strategies")
        .joinpath("catalog_search.schema.json")
        .read_bytes()
    )
    return cast("Json", json_text.loads(text))


def request_body(
    request: SearchRequest,
    tools: Sequence[Json],
    *,
    project_id: str,
    queries: int,
    query_chars: int,
) -> Json:
    """Return the request body for a search over these tools, each from `tool_body`."""
    texts = [query.strip() for query in request.queries if query.strip()][:queries]
    body: Json = {
        "query": [query[:query_chars] for query in texts],
        "tools": tools,
        "maxResults": request.limit,
    }
    if context := request.context.strip():
        body["context"] = context[:query_chars]
    if project_id:
        body["projectId"] = project_id
    return body


def tool_body(tool: SearchableTool, description_chars: int) -> Json:
    """Return a tool as it is sent in a request."""
    sent: Json = {"toolKey": tool.key, "toolName": tool.name, "serverName": tool.server}
    if description := (tool.description or tool.title)[:description_chars]:
        sent["description"] = description
    return sent


def tools_of(body: Json) -> list[SearchableTool]:
    """Return the tools of a request that matches the schema; the first one of each key."""
    tools: dict[str, SearchableTool] = {}
    for sent in map(json_object, json_array(body["tools"])):
        # The definition is all there is, so it is its own digest.
        texts = (sent["serverName"], sent["toolName"], sent.get("description") or "")
        tool = SearchableTool(
            key=sent["toolKey"],
            server=texts[0],
            name=texts[1],
            description=texts[2],
            digest="\0".join(texts),
        )
        tools.setdefault(tool.key, tool)
    return list(tools.values())


def answer_body(answer: SearchAnswer, tools: Mapping[str, SearchableTool]) -> Json:
    """Return the response body for what a search found among the tools of the request."""
    results: list[Json] = []
    for hit in answer.hits:
        tool = tools[hit.key]
        result: Json = {"toolKey": hit.key, "toolName": tool.name, "serverName": tool.server}
        if tool.description:
            result["description"] = tool.description
        result |= {"relevance": hit.relevance, "explanation": hit.explanation}
        if hit.fields.get("weak"):
            result["weak"] = True
        results.append(result)
    body: Json = {"version": CATALOG_SEARCH_VERSION, "results": results}
    if answer.notices:
        body["notices"] = list(answer.notices)
    return body


def read_answer(
    answer: object, allowed: Collection[str], *, query: str
) -> tuple[list[Hit], list[str]]:
    """Return the hits and notices of an answer, in its order; never a tool that is not allowed.

    Args:
        answer: The parsed response.
        allowed: Keys of the tools that were sent.
        query: The query, for the fields of the hits.

    Raises:
        ServiceError: It has another format, or names only tools that were not sent.
    """
    results: object = json_object(answer).get("results")
    if not isinstance(results, list):
        raise ServiceError("an answer without a list of results")
    hits: dict[str, Hit] = {}
    for result in cast("list[object]", results)[:_LOOKED_AT]:
        hit = _hit(result, query)
        if hit.key in allowed:
            hits.setdefault(hit.key, hit)
    # Only foreign keys: the service has confused the request. An empty list is a valid answer.
    if results and not hits:
        raise ServiceError("an answer that names only tools which were not sent")
    sent_notices = [
        notice
        for notice in json_array(json_object(answer).get("notices"))
        if isinstance(notice, str)
    ]
    # Cut before cleaning: the patterns are slow on megabytes.
    notices = [cut(clean(notice[:2_000]), _NOTICE_CHARS) for notice in sent_notices[:_NOTICES]]
    return list(hits.values()), [notice for notice in notices if notice]


def _hit(result: object, query: str) -> Hit:
    fields_sent = json_object(result)
    key, explanation = fields_sent.get("toolKey"), fields_sent.get("explanation")
    if not isinstance(key, str):
        raise ServiceError("a result without toolKey")
    if not isinstance(explanation, str | None):
        raise ServiceError("an explanation that is not text")
    fields: Json = {"query": query[:200]}
    if fields_sent.get("weak") is True:
        fields["weak"] = True
    reason = cut(clean((explanation or "")[:2_000]), _EXPLANATION_CHARS)
    hint = reason if len(reason) > 2 else ""
    return Hit(
        key=key,
        relevance=round(share_of(fields_sent.get("relevance")), 4),
        explanation=hint or "chosen by the search service",
        hint=hint,
        fields=fields,
        source="cloud",
    )


def share_of(value: object) -> float:
    """Return `value` if it is a number from 0 to 1.

    Raises:
        ServiceError: It is something else.
    """
    # NaN fails the comparison, too.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise ServiceError("a relevance that is not a number from 0 to 1")

"""The meta-tools: their definitions, and the parsing of their arguments.

Names and shapes follow the design that the first users of such gateways know (`tool_discovery`,
`tool_execute` with `toolKey` and `arguments`); several client libraries send absent arguments as
null, so null is absence here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from toolgate.base import json_text
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array, json_object

__all__ = [
    "DEFINITIONS",
    "DescribeRequest",
    "DiscoverRequest",
    "ExecuteRequest",
    "KnowledgeRequest",
    "PromptRequest",
    "ReadRequest",
    "read_describe",
    "read_discover",
    "read_execute",
    "read_get_knowledge",
    "read_process_prompt",
    "read_result_read",
]

_MAX_QUERIES = 20
_MAX_KEYS = 50

DEFINITIONS: Mapping[str, Json] = {
    "processPrompt": {
        "name": "processPrompt",
        "title": "Get the rules for a request",
        "description": (
            "Call this first, for every request of the user, before any other tool and before "
            "answering: pass the user's exact message. It tells what the message is about and "
            "gives the rules and tools for that, which you then follow, or PASS_THROUGH: then go "
            "on as usual. Call it again when the user changes the topic."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "prompt": {
                    "type": "string",
                    "description": "The user's message, unchanged and whole.",
                }
            },
            "required": ["prompt"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "getKnowledge": {
        "name": "getKnowledge",
        "title": "Get the rules for actions",
        "description": (
            "The rules for some short actions of two to four words each, such as "
            '["create relation", "list value lists"], when you know what has to be done and need '
            "to know how it is done here. For a message of the user, use processPrompt."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "queries": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": 20,
                    "description": "Actions, two to four words each.",
                }
            },
            "required": ["queries"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "tool_discovery": {
        "name": "tool_discovery",
        "title": "Find tools",
        "description": (
            "Find tools by what they do, across all connected servers. Pass one short phrase per "
            'step, as an array for several steps: ["list files in a folder", "send a message"]. '
            "Gives tool keys with signatures, best first. Then run one with tool_execute."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "description": "What the tool should do: one phrase, or one per step.",
                    "anyOf": [
                        {"type": "string"},
                        {"type": "array", "items": {"type": "string"}, "minItems": 1},
                    ],
                },
                "context": {"type": "string", "description": "Background of the task."},
                "maxResults": {"type": "integer", "minimum": 1, "maximum": 50},
                "server": {
                    "description": "Only tools of this server, or of these.",
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
                },
                "group": {"type": "string", "description": "Only tools of this group."},
                "threshold": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 1,
                    "description": "Least relevance.",
                },
            },
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "results": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "toolKey": {"type": "string"},
                            "signature": {"type": "string"},
                            "description": {"type": "string"},
                            "relevance": {"type": "number"},
                        },
                        "required": ["toolKey", "relevance"],
                    },
                },
                "siblings": {"type": "object"},
                "fit": {"enum": ["good", "unsure", "none"]},
                "notice": {"type": "string"},
            },
            "required": ["results", "fit"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "tool_describe": {
        "name": "tool_describe",
        "title": "Show full schemas",
        "description": "Full input and output schemas of tools, when a signature is not enough.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "toolKeys": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": "Keys as tool_discovery gave them.",
                }
            },
            "required": ["toolKeys"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "tool_execute": {
        "name": "tool_execute",
        "title": "Run a tool",
        "description": (
            "Run a tool by its key and give its result. Arguments that do not fit are answered "
            "with what does."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "toolKey": {"type": "string", "description": "server:tool, from tool_discovery."},
                "arguments": {"type": "object", "description": "Arguments of that tool."},
            },
            "required": ["toolKey"],
        },
    },
    "result_read": {
        "name": "result_read",
        "title": "Read on",
        "description": "Next page of a result that was too long for one answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "As the page before named it."},
                "offset": {"type": "integer", "minimum": 0, "description": "Characters."},
            },
            "required": ["handle"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
}
"""Definitions by name, as `tools/list` shows them."""


@dataclass(frozen=True, kw_only=True)
class DiscoverRequest:
    """A search for tools."""

    queries: tuple[str, ...]
    """What the tools should do, one phrase per step."""

    context: str = ""
    """Background of the task."""

    max_results: int | None = None
    """Hits wanted, 1 to 50; None: as the settings say."""

    servers: tuple[str, ...] = ()
    """Only tools of these servers; empty: of all."""

    threshold: float = 0.0
    """Lowest relevance in [0, 1] that counts."""

    include_core: bool = False
    """Whether pinned tools follow those that were found; clients list them anyway."""

    group: str = ""
    """Only tools of this capability group (`toolgate tools --groups` lists them); empty: of all."""

    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Other weights of the search for this look alone; models cannot ask for it."""

    as_text: bool = True
    """Whether the answer is written out for a model, with what stands beside its results."""


@dataclass(frozen=True, kw_only=True)
class DescribeRequest:
    """A question for full schemas."""

    keys: tuple[str, ...]
    """Tool keys."""


@dataclass(frozen=True, kw_only=True)
class ExecuteRequest:
    """A call of a tool by its key."""

    key: str
    """`server:tool`."""

    arguments: Json
    """For that tool."""


@dataclass(frozen=True, kw_only=True)
class PromptRequest:
    """A question for the rules that belong to a message."""

    prompt: str
    """The message, unchanged."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeRequest:
    """A question for the rules that belong to short actions."""

    queries: tuple[str, ...]
    """The actions."""


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """A question for the next page of a long result."""

    handle: str
    """As the page before named it."""

    offset: int
    """Characters to skip."""


def read_discover(arguments: object) -> DiscoverRequest:
    """The search that the arguments of `tool_discovery` ask for.

    Raises:
        ArgumentError: They do not fit; the message says which, and what fits.
    """
    given = _given(
        "tool_discovery",
        arguments,
        {"query", "context", "maxResults", "server", "group", "threshold"},
    )
    queries = _texts("tool_discovery", given, "query", required=True)
    if len(queries) > _MAX_QUERIES:
        raise _misfit("tool_discovery", "query", f"{len(queries)} phrases", f"1 to {_MAX_QUERIES}")
    limit = given.get("maxResults")
    if limit is not None and not (_is_integer(limit) and 1 <= limit <= 50):
        raise _misfit("tool_discovery", "maxResults", repr(limit), "an integer from 1 to 50")
    threshold = given.get("threshold", 0.0)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise _misfit("tool_discovery", "threshold", repr(threshold), "a number from 0 to 1")
    if not 0 <= threshold <= 1:
        raise _misfit("tool_discovery", "threshold", repr(threshold), "a number from 0 to 1")
    return DiscoverRequest(
        queries=queries,
        context=_text("tool_discovery", given, "context"),
        max_results=None if limit is None else int(limit),
        servers=_texts("tool_discovery", given, "server", required=False),
        threshold=float(threshold),
        group=_text("tool_discovery", given, "group"),
    )


def read_describe(arguments: object) -> DescribeRequest:
    """The question that the arguments of `tool_describe` ask.

    Raises:
        ArgumentError: They do not fit.
    """
    given = _given("tool_describe", arguments, {"toolKeys"})
    keys = _texts("tool_describe", given, "toolKeys", required=True)
    if len(keys) > _MAX_KEYS:
        raise _misfit("tool_describe", "toolKeys", f"{len(keys)} keys", f"1 to {_MAX_KEYS}")
    return DescribeRequest(keys=keys)


def read_execute(arguments: object) -> ExecuteRequest:
    """The call that the arguments of `tool_execute` ask for.

    Raises:
        ArgumentError: They do not fit.
    """
    given = _given("tool_execute", arguments, {"toolKey", "arguments"})
    key = given.get("toolKey")
    if not isinstance(key, str) or not key.strip():
        raise _misfit("tool_execute", "toolKey", _shown(key), 'a key such as "server:tool"')
    inner = given.get("arguments", {})
    if not isinstance(inner, dict):
        raise _misfit("tool_execute", "arguments", _shown(inner), "a JSON object")
    # semantic-kernel reserves the parameter name `arguments` and wraps the whole call once more.
    wrapped = json_object(given.get("arguments"))
    if set(wrapped) == {"toolKey", "arguments"} and wrapped["toolKey"] == key:
        wrapped = json_object(wrapped["arguments"])
    return ExecuteRequest(key=key.strip(), arguments=wrapped)


def read_process_prompt(arguments: object) -> PromptRequest:
    """The message that the arguments of `processPrompt` hold.

    Raises:
        ArgumentError: They do not fit, or there is no message in them.
    """
    given = _given("processPrompt", arguments, {"prompt"})
    prompt = given.get("prompt", "")
    if not isinstance(prompt, str):
        raise _misfit("processPrompt", "prompt", _shown(prompt), "a string")
    if not prompt.strip():
        raise ArgumentError("Error: prompt parameter is required")
    return PromptRequest(prompt=prompt)


def read_get_knowledge(arguments: object) -> KnowledgeRequest:
    """The actions that the arguments of `getKnowledge` hold.

    Raises:
        ArgumentError: They do not fit, or there is no action in them.
    """
    given = _given("getKnowledge", arguments, {"queries"})
    if given.get("queries") in (None, [], ""):
        raise ArgumentError("Error: queries parameter is required")
    queries = _texts("getKnowledge", given, "queries", required=True)
    queries = tuple(dict.fromkeys(query for query in queries if query.strip()))
    if not queries:
        raise ArgumentError("Error: queries parameter is required")
    if len(queries) > _MAX_QUERIES:
        raise _misfit("getKnowledge", "queries", f"{len(queries)} actions", f"1 to {_MAX_QUERIES}")
    return KnowledgeRequest(queries=queries)


def read_result_read(arguments: object) -> ReadRequest:
    """The page that the arguments of `result_read` ask for.

    Raises:
        ArgumentError: They do not fit.
    """
    given = _given("result_read", arguments, {"handle", "offset"})
    handle = given.get("handle")
    if not isinstance(handle, str) or not handle:
        raise _misfit("result_read", "handle", _shown(handle), "a handle that a page named")
    offset = given.get("offset", 0)
    if not _is_integer(offset) or offset < 0:
        raise _misfit("result_read", "offset", _shown(offset), "an integer from 0 on")
    return ReadRequest(handle=handle, offset=int(offset))


def _given(tool: str, arguments: object, known: set[str]) -> Json:
    if arguments is not None and not _is_object(arguments):
        raise _misfit(tool, "arguments", _shown(arguments), "a JSON object")
    given = {key: value for key, value in json_object(arguments).items() if value is not None}
    unknown = sorted(set(given) - known)
    if unknown:
        near = get_close_matches(unknown[0][:60], known, 1)
        raise ArgumentError(
            f"{tool} has no argument {unknown[0][:60]!r}.",
            allowed=f"Allowed: {', '.join(sorted(known))}.",
            hint=f"Did you mean {near[0]!r}?" if near else "Leave it out.",
        )
    return given


def _text(tool: str, given: Json, name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise _misfit(tool, name, _shown(value), "a string")
    return value


def _texts(tool: str, given: Json, name: str, *, required: bool) -> tuple[str, ...]:
    value = given.get(name)
    if value is None and not required:
        return ()
    several = [value] if isinstance(value, str) else json_array(value)
    texts = tuple(item for item in several if isinstance(item, str))
    if not texts or len(texts) < len(several):
        raise _misfit(tool, name, _shown(value), "a string, or an array of one string or more")
    return texts


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return json_text.dumps(value).decode()[:60]


def _misfit(tool: str, name: str, came: str, allowed: str) -> ArgumentError:
    return ArgumentError(
        f"{tool}: {name!r} does not fit: {came} came.",
        allowed=f"Allowed: {allowed}.",
        hint=f"Signature: {_SIGNATURES[tool]}",
    )


_SIGNATURES = {
    "tool_discovery": "tool_discovery(query: string | string[], context?, maxResults?: integer, "
    "server?: string | string[], group?, threshold?: number)",
    "tool_describe": "tool_describe(toolKeys: string[])",
    "tool_execute": "tool_execute(toolKey, arguments: object)",
    "result_read": "result_read(handle, offset?: integer)",
    "processPrompt": "processPrompt(prompt)",
    "getKnowledge": "getKnowledge(queries: string[])",
}

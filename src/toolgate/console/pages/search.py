"""The Search page: the search results that a model gets for a request, with explanations."""

from dataclasses import dataclass, replace

from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError, ForbiddenError, ToolgateError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.search import WEIGHTS, Discovery
from toolgate.security.access import PresentedCredentials
from toolgate.security.authn import identity_of
from toolgate.types import CONSOLE, Caller, Json, json_array, json_object

_LIMITS = (5, 10, 20)
_WITHHELD = 5
"""Missing tools that are explained (chosen)."""
_WEIGHED = {
    "dense_weight": "Semantic vs. keyword",
    "clause_weight": "Best-matching clause vs. whole request",
    "server_weight": "Server similarity",
    "context_weight": "Conversation context",
}
"""Labels of weights that can be changed on the page."""


@dataclass(frozen=True, kw_only=True)
class WithheldTools:
    """A tool that the caller would find but the chosen token does not."""

    key: str
    """`server:tool`."""

    reason: str
    """Why the token does not get it."""


async def _show(request: PageRequest) -> Response:
    query = request.value("q").strip()
    limit_text = request.value("limit", "5")
    limit = (
        int(limit_text)
        if limit_text in {str(limit_choice) for limit_choice in _LIMITS}
        else _LIMITS[0]
    )
    name = request.value("as")
    discovery: Discovery | None = None
    withheld: list[WithheldTools] = []
    weights = _weights(request)
    subject: Caller | None = None
    if query and request.problem is None:
        try:
            subject = await _subject(request, name)
        except ForbiddenError as error:  # the token has no access to the project
            request.problem = error
    compared: Discovery | None = None
    if subject is not None:
        search_request = DiscoverRequest(
            queries=(query[:1000],), max_results=limit, weights=weights
        )
        discovery = await request.gateway.discovery.discover(subject, search_request)
        compared = await _compared(request, subject, search_request)
        if name:
            withheld = await _withheld(request, search_request, discovery, name)
    return request.page(
        "search.html",
        word=query,
        limit=limit,
        limits=_LIMITS,
        name=name,
        names=[token.name for token in await request.gateway.admin.tokens(request.caller)]
        if request.manages
        else [],
        project=request.query_value("in"),
        projects=[project.name for project in await request.gateway.admin.projects(request.caller)]
        if request.manages
        else [],
        found=discovery,
        compared=compared,
        ranks={hit.tool_key: rank for rank, hit in enumerate(discovery.results, 1)}
        if discovery
        else {},
        comparisons=await _comparisons(request),
        compare=request.query_value("compare"),
        withheld=withheld,
        reasons=_reasons,
        weights=weights,
        weighed=_WEIGHED,
        usual=request.app.settings.search.options.get("hybrid", {}),
    )


async def _comparisons(request: PageRequest) -> dict[str, str]:
    """Return what the results can be compared with: values and labels."""
    choices = {"words": "keyword search only", "meaning": "vector search only"}
    if request.manages:
        projects = await request.gateway.admin.projects(request.caller)
        choices |= {f"project:{project.name}": f"project {project.name}" for project in projects}
        tokens = await request.gateway.admin.tokens(request.caller)
        choices |= {f"token:{token.name}": f"token {token.name}" for token in tokens}
    return choices


async def _compared(
    request: PageRequest, subject: Caller, search_request: DiscoverRequest
) -> Discovery | None:
    """Run the same request with another configuration; None if nothing is compared."""
    kind, _, name = request.query_value("compare").partition(":")
    match kind:
        case "words" | "meaning":
            weight = 0.0 if kind == "words" else 1.0
            search_request = replace(
                search_request, weights={**search_request.weights, "dense_weight": weight}
            )
        case "project":
            request.gateway.visible.must_manage(request.caller)
            request.gateway.admin.check_project(name)
            subject = replace(subject, project_id=name)
        case "token":
            subject = await _subject(request, name)
        case _:
            return None
    return await request.gateway.discovery.discover(subject, search_request)


def _weights(request: PageRequest) -> dict[str, float]:
    """Parse the submitted weights; an invalid one becomes the page's problem."""
    weights: dict[str, float] = {}
    for name in WEIGHTS:
        text = request.value(name).strip().replace(",", ".")
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            request.problem = ArgumentError(
                f"The weight “{_WEIGHED[name]}” is {text[:40]!r}.",
                allowed="Weights are numbers from 0 to 1.",
            )
            continue
        weights[name] = value
    return weights


async def _subject(request: PageRequest, name: str) -> Caller:
    """Return the caller and project that the search is run for."""
    project = request.query_value("in")
    if project:
        request.gateway.visible.must_manage(request.caller)
    if not name:
        return replace(request.caller, project_id=project) if project else request.caller
    token = await request.gateway.admin.token_named(request.caller, name)
    credentials = PresentedCredentials(
        header_project=project or None,
        client=CONSOLE,
        conversation=f"console {request.caller.caller_id}",
        entry_point="console",
    )
    return request.gateway.admission.caller_of(identity_of(token), credentials)


async def _withheld(
    request: PageRequest, search_request: DiscoverRequest, discovery: Discovery, name: str
) -> list[WithheldTools]:
    """Return tools that the caller finds but the token does not, with reasons."""
    visible = await request.gateway.discovery.discover(request.caller, search_request)
    theirs = {hit.tool_key for hit in discovery.results}
    missing = [
        hit.tool_key for hit in visible.results if hit.tool_key not in theirs and not hit.weak
    ]
    identity = identity_of(await request.gateway.admin.token_named(request.caller, name))
    withheld: list[WithheldTools] = []
    for key in missing[:_WITHHELD]:
        explanation = await request.gateway.manage.visibility.explain(
            request.caller, key, identity=identity
        )
        shut = [stage for stage in explanation["stages"] if not stage["passed"]]
        if shut:
            withheld.append(WithheldTools(key=key, reason=shut[0]["reason"]))
    return withheld


def _reasons(fields: Json) -> list[tuple[str, str]]:
    """Return why a tool was found, as labels and values."""
    reasons = [
        (f"Keywords in the {field}", ", ".join(map(str, json_array(words))))
        for field, words in json_object(fields.get("matched")).items()
    ]
    names = {
        "covered": "Share of matching words",
        "cosine": "Semantic similarity",
        "usage": "Past usage",
        "intent": "Intent",
        "ranked": "Rank before LLM selection",
        "score": "Score",
    }
    reasons += [(words, _number(fields[name])) for name, words in names.items() if fields.get(name)]
    return reasons


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


async def _mark(request: PageRequest) -> Response:
    right = request.value("mark") == "right"
    if request.value("as") or request.value("in"):
        raise ArgumentError(
            "You can rate only your own searches.",
            hint="Search as yourself and without a project.",
        )
    await request.gateway.learning.mark(request.caller, request.value("key"), right=right)
    word = "relevant" if right else "not relevant"
    return request.go(
        "search",
        message=f"{request.value('key')} is now rated as {word} for this request.",
        q=request.value("q"),
        limit=request.value("limit"),
        **{weight: request.value(weight) for weight in WEIGHTS},
    )


# Explain access


async def _why(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    tool, name = request.query_value("tool").strip(), request.query_value("token")
    explanation: Json | None = None
    problem: ToolgateError | None = None
    tokens = await request.gateway.admin.tokens(request.caller)
    if tool:
        try:
            explanation = await _explained(request, tool, name)
        except ForbiddenError:
            raise
        except ToolgateError as error:
            problem = error
    request.problem = problem
    return request.page(
        "why.html",
        tool=tool,
        name=name,
        query=request.query_value("query"),
        names=[token.name for token in tokens],
        told=explanation,
    )


async def _explained(request: PageRequest, tool: str, name: str) -> Json:
    if not name:
        return await request.gateway.manage.visibility.explain(
            request.caller,
            tool,
            identity=request.caller.identity,
            query=request.query_value("query"),
        )
    token = await request.gateway.admin.token_named(request.caller, name)
    return await request.gateway.manage.visibility.explain(
        request.caller,
        tool,
        identity=identity_of(token),
        query=request.query_value("query"),
        problem=request.gateway.admin.problem_of(token),
    )


ROUTES = (
    Route(path="search", show=_show, act=_mark),
    Route(path="why", show=_why),
)

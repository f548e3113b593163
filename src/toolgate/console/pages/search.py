"""The Search page: the search results that a model gets for a request, with explanations."""

from dataclasses import dataclass, replace

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import ArgumentError, ForbiddenError, ToolgateError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.search import WEIGHTS, Discovery
from toolgate.security.access import PresentedCredentials
from toolgate.security.authn import identity_of
from toolgate.types import CONSOLE, Caller, Json, json_array, json_object

__all__ = ["ROUTES"]

_LIMITS = (5, 10, 20)
_WITHHELD = 5
"""Missing tools that are explained (chosen)."""
_WEIGHED = {
    "dense_weight": "Semantic vs. keyword",
    "clause_weight": "Best clause vs. whole request",
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


async def _show(visit: Visit) -> Response:
    query = visit.typed("q").strip()
    limit_text = visit.typed("limit", "5")
    limit = (
        int(limit_text)
        if limit_text in {str(limit_choice) for limit_choice in _LIMITS}
        else _LIMITS[0]
    )
    name = visit.typed("as")
    discovery: Discovery | None = None
    withheld: list[WithheldTools] = []
    weights = _weights(visit)
    subject: Caller | None = None
    if query and visit.problem is None:
        try:
            subject = await _subject(visit, name)
        except ForbiddenError as error:  # the token has no access to the project
            visit.problem = error
    compared: Discovery | None = None
    if subject is not None:
        request = DiscoverRequest(queries=(query[:1000],), max_results=limit, weights=weights)
        discovery = await visit.gateway.discovery.discover(subject, request)
        compared = await _compared(visit, subject, request)
        if name:
            withheld = await _withheld(visit, request, discovery, name)
    return visit.page(
        "search.html",
        word=query,
        limit=limit,
        limits=_LIMITS,
        name=name,
        names=[token.name for token in await visit.gateway.admin.tokens(visit.caller)]
        if visit.manages
        else [],
        project=visit.asked("in"),
        projects=[project.name for project in await visit.gateway.admin.projects(visit.caller)]
        if visit.manages
        else [],
        found=discovery,
        compared=compared,
        ranks={hit.tool_key: rank for rank, hit in enumerate(discovery.results, 1)}
        if discovery
        else {},
        comparisons=await _comparisons(visit),
        compare=visit.asked("compare"),
        withheld=withheld,
        reasons=_reasons,
        weights=weights,
        weighed=_WEIGHED,
        usual=visit.app.settings.search.options.get("hybrid", {}),
    )


async def _comparisons(visit: Visit) -> dict[str, str]:
    """Return what the results can be compared with: values and labels."""
    choices = {"words": "keyword search only", "meaning": "vector search only"}
    if visit.manages:
        projects = await visit.gateway.admin.projects(visit.caller)
        choices |= {f"project:{project.name}": f"project {project.name}" for project in projects}
        tokens = await visit.gateway.admin.tokens(visit.caller)
        choices |= {f"token:{token.name}": f"token {token.name}" for token in tokens}
    return choices


async def _compared(visit: Visit, subject: Caller, request: DiscoverRequest) -> Discovery | None:
    """Run the same request with another configuration; None if nothing is compared."""
    kind, _, name = visit.asked("compare").partition(":")
    match kind:
        case "words" | "meaning":
            weight = 0.0 if kind == "words" else 1.0
            request = replace(request, weights={**request.weights, "dense_weight": weight})
        case "project":
            visit.gateway.visible.must_manage(visit.caller)
            visit.gateway.admin.check_project(name)
            subject = replace(subject, project_id=name)
        case "token":
            subject = await _subject(visit, name)
        case _:
            return None
    return await visit.gateway.discovery.discover(subject, request)


def _weights(visit: Visit) -> dict[str, float]:
    """Parse the submitted weights; an invalid one becomes the page's problem."""
    weights: dict[str, float] = {}
    for name in WEIGHTS:
        text = visit.typed(name).strip().replace(",", ".")
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            visit.problem = ArgumentError(
                f"The weight “{_WEIGHED[name]}” is {text[:40]!r}.",
                allowed="Weights are numbers from 0 to 1.",
            )
            continue
        weights[name] = value
    return weights


async def _subject(visit: Visit, name: str) -> Caller:
    """Return the caller and project that the search is run for."""
    project = visit.asked("in")
    if project:
        visit.gateway.visible.must_manage(visit.caller)
    if not name:
        return replace(visit.caller, project_id=project) if project else visit.caller
    token = await visit.gateway.admin.token_named(visit.caller, name)
    credentials = PresentedCredentials(
        header_project=project or None,
        client=CONSOLE,
        conversation=f"console {visit.caller.caller_id}",
        entry_point="console",
    )
    return visit.gateway.admission.caller_of(identity_of(token), credentials)


async def _withheld(
    visit: Visit, request: DiscoverRequest, discovery: Discovery, name: str
) -> list[WithheldTools]:
    """Return tools that the caller finds but the token does not, with reasons."""
    visible = await visit.gateway.discovery.discover(visit.caller, request)
    theirs = {hit.tool_key for hit in discovery.results}
    missing = [
        hit.tool_key for hit in visible.results if hit.tool_key not in theirs and not hit.weak
    ]
    identity = identity_of(await visit.gateway.admin.token_named(visit.caller, name))
    withheld: list[WithheldTools] = []
    for key in missing[:_WITHHELD]:
        explanation = await visit.gateway.manage.visibility.explain(
            visit.caller, key, identity=identity
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
        "ranked": "Rank before the chat model",
        "score": "Score",
    }
    reasons += [(words, _number(fields[name])) for name, words in names.items() if fields.get(name)]
    return reasons


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


async def _mark(visit: Visit) -> Response:
    right = visit.typed("mark") == "right"
    if visit.typed("as") or visit.typed("in"):
        raise ArgumentError(
            "You can rate only your own searches.",
            hint="Search as yourself and without a project.",
        )
    await visit.gateway.learning.mark(visit.caller, visit.typed("key"), right=right)
    word = "relevant" if right else "not relevant"
    return visit.go(
        "search",
        message=f"{visit.typed('key')} is rated as {word} for this request.",
        q=visit.typed("q"),
        limit=visit.typed("limit"),
        **{weight: visit.typed(weight) for weight in WEIGHTS},
    )


# Explain access


async def _why(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    tool, name = visit.asked("tool").strip(), visit.asked("token")
    explanation: Json | None = None
    problem: ToolgateError | None = None
    tokens = await visit.gateway.admin.tokens(visit.caller)
    if tool:
        try:
            explanation = await _explained(visit, tool, name)
        except ForbiddenError:
            raise
        except ToolgateError as error:
            problem = error
    visit.problem = problem
    return visit.page(
        "why.html",
        tool=tool,
        name=name,
        query=visit.asked("query"),
        names=[token.name for token in tokens],
        told=explanation,
    )


async def _explained(visit: Visit, tool: str, name: str) -> Json:
    if not name:
        return await visit.gateway.manage.visibility.explain(
            visit.caller, tool, identity=visit.caller.identity, query=visit.asked("query")
        )
    token = await visit.gateway.admin.token_named(visit.caller, name)
    return await visit.gateway.manage.visibility.explain(
        visit.caller,
        tool,
        identity=identity_of(token),
        query=visit.asked("query"),
        problem=visit.gateway.admin.problem_of(token),
    )


ROUTES = (
    Route(path="search", show=_show, act=_mark),
    Route(path="why", show=_why),
)

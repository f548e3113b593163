"""The contract suite for search strategies.

Example:
    ```python
    class TestMine(SearchContract):
        @pytest.fixture
        def make_strategy(self) -> Callable[[], SearchStrategy]:
            return lambda: build(Options())
    ```
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from anyio import create_task_group

from toolgate.search import SearchableTool, SearchAnswer, SearchRequest, SearchStrategy

HOSTILE_TEXTS = (
    "",
    " \n\t ",
    "?!…—",
    "🚀🔥",
    "\x00\x1b[31mred\x1b[0m\x07",
    "\ud800 lone",
    "a" * 100_000,
    "create an issue " * 7_000,
    "the of and to what",
    "'\"`“”«»",
    '"' * 5_000,
    "_" * 5_000,
    "天气",
    "İıſß",
    "\u202e\u2066right to left",
    "%s {0} $x \\ .* [",
)
"""Texts that clients may send as requests, or servers as descriptions."""


def sample_tools() -> list[SearchableTool]:
    """A small catalog with obvious right answers."""
    rows = [
        ("github", "create_issue", "Open a new issue in a repository.", ("owner", "repo", "title")),
        ("github", "list_issues", "List the issues of a repository.", ("owner", "repo", "state")),
        ("github", "merge_pull_request", "Merge a pull request.", ("owner", "repo", "number")),
        ("gitlab", "create_issue", "Open a new issue in a project.", ("project", "title")),
        ("mail", "sendMail", "Send an e-mail to somebody.", ("to", "subject", "body")),
        ("weather", "get-forecast", "Weather forecast for a place.", ("latitude", "longitude")),
        ("files", "read_file", "Read the contents of a file.", ("path",)),
        ("files", "write_file", "Write text into a file.", ("path", "content")),
        ("地图", "maps_weather", "根据城市名称查询指定城市的天气", ("city",)),
    ]
    return [
        SearchableTool(
            key=f"{server}:{name}",
            server=server,
            name=name,
            description=description,
            parameters=tuple((parameter, "") for parameter in parameters),
            digest=f"{server}:{name} 1",
        )
        for server, name, description, parameters in rows
    ]


def keys(answer: SearchAnswer) -> list[str]:
    """The keys of the hits, best first."""
    return [hit.key for hit in answer.hits]


@pytest.mark.anyio
class SearchContract:
    """The requirements of `toolgate.search.SearchStrategy`, one test each."""

    @pytest.fixture
    def make_strategy(self) -> Callable[[], SearchStrategy]:
        """Builds a strategy with the same options each time; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    async def strategy(self, make_strategy: Callable[[], SearchStrategy]) -> SearchStrategy:
        """The strategy under test, over `sample_tools`."""
        strategy = make_strategy()
        await strategy.update(sample_tools())
        return strategy

    async def test_it_satisfies_the_protocol(
        self, make_strategy: Callable[[], SearchStrategy]
    ) -> None:
        """`plugins.make` rejects others."""
        assert isinstance(make_strategy(), SearchStrategy)

    async def test_keys_are_in_the_order_of_the_tools(self, strategy: SearchStrategy) -> None:
        """Masks are built from them."""
        assert strategy.keys == tuple(tool.key for tool in sample_tools())

    async def test_an_empty_index_says_that_there_is_nothing(
        self, make_strategy: Callable[[], SearchStrategy]
    ) -> None:
        """The state before the first server has answered."""
        strategy = make_strategy()
        for tools in ((), sample_tools(), ()):
            await strategy.update(tools)

        answer = await strategy.search(SearchRequest(queries=("create an issue",)))

        assert (answer.hits, answer.searched) == ((), 0)
        assert answer.notices

    async def test_only_tools_of_the_mask_are_found(self, strategy: SearchStrategy) -> None:
        """A tool that the caller may not see is in no answer, however well it matches."""
        everything = ("issue", "github:create_issue", "create_issue", '"create_issue"', "mail")
        for hidden in strategy.keys:
            mask = np.array([key != hidden for key in strategy.keys])
            request = SearchRequest(
                queries=(*everything, hidden), limit=100, mask=mask, priors={hidden: 1.0}
            )
            answer = await strategy.search(request)

            assert hidden not in keys(answer)
            assert answer.searched == len(strategy.keys) - 1

    async def test_hiding_a_tool_does_not_reorder_the_others(
        self, strategy: SearchStrategy
    ) -> None:
        """All callers share an index: permissions filter, they do not rank."""
        request = SearchRequest(queries=("create an issue",), limit=100)
        everybody = keys(await strategy.search(request))
        for hidden in everybody:
            mask = np.array([key != hidden for key in strategy.keys])

            visible = keys(await strategy.search(replace(request, mask=mask)))

            assert visible == [key for key in everybody if key != hidden]

    async def test_a_mask_that_allows_nothing_finds_nothing(self, strategy: SearchStrategy) -> None:
        """A caller without permissions gets a reason, not an error."""
        mask = np.zeros(len(strategy.keys), np.bool_)

        answer = await strategy.search(SearchRequest(queries=("create_issue",), mask=mask))

        assert (answer.hits, answer.searched) == ((), 0)
        assert answer.notices

    async def test_a_mask_of_another_size_shows_nothing(self, strategy: SearchStrategy) -> None:
        """It belongs to another state of the index; guessing could leak tools."""
        mask = np.ones(len(strategy.keys) - 1, np.bool_)

        answer = await strategy.search(SearchRequest(queries=("create_issue",), mask=mask))

        assert answer.hits == ()
        assert answer.notices

    async def test_servers_narrow_the_search(self, strategy: SearchStrategy) -> None:
        """`servers` is a filter like the mask."""
        request = SearchRequest(queries=("create_issue",), servers=("gitlab",))

        answer = await strategy.search(request)

        assert keys(answer) == ["gitlab:create_issue"]
        assert answer.searched == 1

    async def test_a_server_without_visible_tools_is_said(self, strategy: SearchStrategy) -> None:
        """Unknown and invisible servers are reported the same way."""
        mask = np.array([not key.startswith("gitlab:") for key in strategy.keys])
        hidden, unknown = [
            await strategy.search(
                SearchRequest(queries=("create_issue",), servers=(name,), mask=mask)
            )
            for name in ("gitlab", "gitlub")
        ]

        assert hidden.hits == unknown.hits == ()
        notices = [notice.replace("gitlab", "gitlub") for notice in hidden.notices]
        assert notices == list(unknown.notices) != []

    @pytest.mark.parametrize("limit", [1, 2, 5, 100])
    async def test_no_more_hits_than_wanted(self, strategy: SearchStrategy, limit: int) -> None:
        """`limit` counts tools over all queries, each once."""
        queries = ("repository issue file weather", "file", "owner repo")

        answer = await strategy.search(SearchRequest(queries=queries, limit=limit))

        assert 1 <= len(answer.hits) <= limit
        assert len(set(keys(answer))) == len(answer.hits)

    async def test_the_same_request_gives_the_same_answer(
        self, make_strategy: Callable[[], SearchStrategy]
    ) -> None:
        """Even in another process with another order of tools."""
        answers: list[Sequence[object]] = []
        for tools in (sample_tools(), sample_tools(), sample_tools()[::-1]):
            strategy = make_strategy()
            await strategy.update(tools)
            answers.append((await strategy.search(SearchRequest(queries=("a file",)))).hits)

        assert answers[0] == answers[1] == answers[2]

    async def test_equal_tools_are_in_order_of_key(
        self, make_strategy: Callable[[], SearchStrategy]
    ) -> None:
        """Ten thousand of them, as from a generator of test servers."""
        tools = [
            SearchableTool(key=f"s{n % 7}:t{n}", server="s", name="t", description="Do the thing.")
            for n in range(10_000)
        ]
        strategy = make_strategy()
        await strategy.update(tools)

        answer = await strategy.search(SearchRequest(queries=("do the thing",), limit=7))

        assert keys(answer) == sorted(strategy.keys)[:7]

    @pytest.mark.parametrize(
        ("query", "first"),
        [
            ("gitlab:create_issue", ["gitlab:create_issue"]),
            ("gitlab__create_issue", ["gitlab:create_issue"]),
            ("create_issue", ["github:create_issue", "gitlab:create_issue"]),
            ("`read_file`", ["files:read_file"]),
            ("read file", ["files:read_file"]),
            ("sendmail", ["mail:sendMail"]),
            ("GitHub:Create_Issue", ["github:create_issue"]),
            ('open an issue with "merge_pull_request"', ["github:merge_pull_request"]),
            ("first weather:get-forecast, then mail", ["weather:get-forecast"]),
        ],
        ids=str,
    )
    async def test_an_exact_name_is_first(
        self, strategy: SearchStrategy, query: str, first: list[str]
    ) -> None:
        """A model that knows the name must not lose it to a better description."""
        answer = await strategy.search(SearchRequest(queries=(query,)))

        assert keys(answer)[: len(first)] == first

    @pytest.mark.parametrize(
        ("query", "key"),
        [
            ("open a new issue in a repository", "github:create_issue"),
            ("weather forecasts", "weather:get-forecast"),
            ("send emails", "mail:sendMail"),
            ("查询北京的天气", "地图:maps_weather"),
            ("merging pull requests", "github:merge_pull_request"),
        ],
        ids=str,
    )
    async def test_plain_words_find_the_tool(
        self, strategy: SearchStrategy, query: str, key: str
    ) -> None:
        """Word forms, compound names and a script without spaces: the minimum of a search."""
        answer = await strategy.search(SearchRequest(queries=(query,)))

        assert keys(answer)[0] == key

    @pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=lambda text: ascii(text[:20]))
    async def test_any_text_is_a_request(self, strategy: SearchStrategy, text: str) -> None:
        """Never an exception; an empty answer has a reason."""
        for request in (
            SearchRequest(queries=(text,)),
            SearchRequest(queries=(text, "issue"), context=text, servers=(text,)),
            SearchRequest(queries=(text,) * 50, priors={text: 1.0}, recent=(text,)),
        ):
            answer = await strategy.search(request)

            assert answer.hits or answer.notices

    async def test_any_text_may_be_in_a_tool(
        self, make_strategy: Callable[[], SearchStrategy]
    ) -> None:
        """Servers can send anything."""
        tools = [
            SearchableTool(
                key=f"{server}:{text}",
                server=server,
                name=text,
                title=text,
                description=text,
                parameters=((text, text),) * 3,
            )
            for server in ("a", "b")
            for text in HOSTILE_TEXTS
        ]
        strategy = make_strategy()
        await strategy.update([*tools, *sample_tools()])

        answer = await strategy.search(SearchRequest(queries=("weather forecast",)))

        assert keys(answer)[0] == "weather:get-forecast"

    async def test_relevance_is_in_range_and_falls(self, strategy: SearchStrategy) -> None:
        """Hits of a query are ordered by relevance."""
        for query in ("issue", "github:create_issue", "read the contents of a file in weather"):
            answer = await strategy.search(SearchRequest(queries=(query,), limit=100))
            relevances = [hit.relevance for hit in answer.hits]

            assert all(0 < relevance <= 1 for relevance in relevances)
            assert relevances == sorted(relevances, reverse=True)

    async def test_every_hit_says_why(self, strategy: SearchStrategy) -> None:
        """A short sentence for people, without control characters."""
        answer = await strategy.search(SearchRequest(queries=("open an issue", "read a file")))

        assert answer.hits
        for hit in answer.hits:
            assert 3 <= len(hit.explanation) <= 400
            assert hit.explanation.isprintable()

    @pytest.mark.parametrize("query", ["xylophone zeppelin", "what is the of", "?!", "🚀", ""])
    async def test_nothing_that_fits_is_said(self, strategy: SearchStrategy, query: str) -> None:
        """Never an empty list without a reason, never unrelated tools without a notice."""
        answer = await strategy.search(SearchRequest(queries=(query,)))

        assert all(hit.fields.get("weak") for hit in answer.hits)
        assert len(answer.notices) == 1
        assert answer.notices[0].endswith((".", "!"))

    async def test_a_threshold_drops_weaker_hits_and_says_so(
        self, strategy: SearchStrategy
    ) -> None:
        """The answer says why hits were dropped."""
        request = SearchRequest(queries=("new issue somewhere over the rainbow",), limit=100)
        weakest = (await strategy.search(request)).hits[-1].relevance

        above = await strategy.search(replace(request, threshold=weakest + 1e-6))
        none = await strategy.search(replace(request, threshold=0.9999))

        assert above.hits
        assert all(hit.relevance > weakest for hit in above.hits)
        assert none.hits == ()
        assert none.notices

    async def test_several_queries_are_dealt_in_turns(self, strategy: SearchStrategy) -> None:
        """One phrase per step: no step's hits displace those of another."""
        queries = ("create_issue", "weather forecast", "write a file")
        first = [keys(await strategy.search(SearchRequest(queries=(q,))))[0] for q in queries]

        together = await strategy.search(SearchRequest(queries=queries, limit=5))

        assert keys(together)[:3] == first
        assert len(set(keys(together))) == len(together.hits) <= 5

    async def test_one_query_without_hits_is_named(self, strategy: SearchStrategy) -> None:
        """A step without hits must stand out among the hits of the others."""
        answer = await strategy.search(SearchRequest(queries=("zeppelin", "weather forecast")))

        assert keys(answer)[0] == "weather:get-forecast"
        assert any("zeppelin" in notice for notice in answer.notices)

    async def test_context_adds_no_tool(self, strategy: SearchStrategy) -> None:
        """It may only change the ranking."""
        request = SearchRequest(queries=("weather",), limit=100)
        bare = await strategy.search(request)

        with_context = await strategy.search(
            replace(request, context="We write code and open issues in a repository.")
        )

        assert set(keys(with_context)) == set(keys(bare))

    async def test_changed_tools_are_read_anew(self, strategy: SearchStrategy) -> None:
        """The digest says what changed; other tools keep their position."""
        tools = sample_tools()
        tools[6] = replace(tools[6], description="Play the xylophone.", digest="another")
        await strategy.update(tools)

        answer = await strategy.search(SearchRequest(queries=("xylophone",)))

        assert keys(answer)[0] == "files:read_file"

    async def test_removed_tools_are_gone(self, strategy: SearchStrategy) -> None:
        """A server was removed or disabled."""
        left = [tool for tool in sample_tools() if tool.server != "github"]
        await strategy.update(left)

        answer = await strategy.search(SearchRequest(queries=("create_issue",), limit=100))

        assert strategy.keys == tuple(tool.key for tool in left)
        assert "gitlab:create_issue" in keys(answer)
        assert not [key for key in keys(answer) if key.startswith("github:")]

    async def test_a_search_sees_one_state_while_tools_change(
        self, strategy: SearchStrategy
    ) -> None:
        """Servers connect during searches; the last update wins."""
        few, many = sample_tools()[:3], sample_tools()
        seen: list[tuple[int, frozenset[str]]] = []

        async def change() -> None:
            for _ in range(10):
                await strategy.update(few)
                await strategy.update(many)

        async def search() -> None:
            for _ in range(50):
                mask = np.ones(len(strategy.keys), np.bool_)
                request = SearchRequest(queries=("issue file mail",), limit=100, mask=mask)
                answer = await strategy.search(request)
                seen.append((answer.searched, frozenset(keys(answer))))

        async with create_task_group() as group:
            group.start_soon(change)
            group.start_soon(search)

        assert len(seen) == 50
        assert {count for count, _ in seen} <= {len(few), len(many)}
        assert all(
            keys_found <= {t.key for t in few} for count, keys_found in seen if count == len(few)
        )
        assert strategy.keys == tuple(tool.key for tool in many)

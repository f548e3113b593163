"""The decision: its table in the docs, masks that agree with it, and changes."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.security.access.fake_catalog import FakeCatalog, Tool, caller, server
from toolgate.errors import ArgumentError, SettingError
from toolgate.security.access import (
    AccessRule,
    Policy,
    PolicyInputs,
    ProjectRules,
    parse_pattern,
    rules_of_file,
)
from toolgate.settings import PermissionTable
from toolgate.types import DEFAULT_PROJECT, LOCAL, Caller, Identity

PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
_RULE = re.compile(r"(allow|deny) (\S+)(?: \((\w+)\))? to (\S+)")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first line is `heading`."""
    lines = PAGE.read_text(encoding="utf-8").partition(heading)[2].splitlines()[2:]
    table = [line for line in lines[: lines.index("")] if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


EXAMPLES = rows("| line | rules | caller | tool | allowed |")


def example_place() -> FakeCatalog:
    place = FakeCatalog()
    hints = {
        "get": {"read_only": True, "destructive": False},
        "set": {"destructive": False},
        "drop": {},
        "gone": {},
    }
    servers = {"notes": "web", "files": "data", "time": DEFAULT_PROJECT}
    place.reload(
        [server(name, project=of, permissions={"gone": False}) for name, of in servers.items()],
        [Tool(key=f"{name}:{tool}", **hint) for name in servers for tool, hint in hints.items()],
    )
    return place


def seen(policy: Policy, who: Caller, place: FakeCatalog) -> int:
    """How many tools a caller sees."""
    mask = policy.mask(who, place.snapshot)
    assert mask is not None
    return int(mask.sum())


def rules_of(text: str) -> tuple[AccessRule, ...]:
    found: list[AccessRule] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = _RULE.fullmatch(part)
        assert match is not None, part
        effect: Any
        effect, pattern, hint, who = match.groups()
        kind, pattern = parse_pattern(pattern)
        words: Any = {"destructive": "destructive", "read_only": "read_only", None: ""}
        found.append(
            AccessRule(
                effect=effect, who=who, kind=kind, pattern=pattern, hint=words[hint], source=part
            )
        )
    return tuple(found)


def caller_of(text: str) -> Caller:
    said = dict(part.split(" ", 1) for part in text.split(", ") if " " in part)
    words = set(text.split(", "))
    found = caller(
        token=said.get("token", ""),
        user=said.get("user", said.get("jwt", "")),
        kind="jwt" if "jwt" in said else "token",
        roles=(said["role"],) if "role" in said else (),
        groups=(said["group"],) if "group" in said else (),
        project=said.get("project", DEFAULT_PROJECT),
        read_only="read-only" in words,
    )
    return (
        Caller(caller_id="local", project_id=found.project_id, identity=LOCAL)
        if "local" in words
        else found
    )


@pytest.mark.parametrize(
    ("line", "rules", "who", "tool", "answer"), EXAMPLES, ids=[" - ".join(e) for e in EXAMPLES]
)
def test_the_examples_of_the_page_hold(
    line: str, rules: str, who: str, tool: str, answer: str
) -> None:
    """`docs/permissions.md`, How access is decided."""
    place = example_place()
    projects = {"web": ProjectRules(), "data": ProjectRules()}
    policy = Policy(place, PolicyInputs(required=True, rules=rules_of(rules), projects=projects))
    asker = caller_of(who)

    verdict = policy.decide(asker, "call", tool)
    mask = policy.mask(asker, place.snapshot)

    assert verdict.allowed is (answer == "yes"), verdict.rule
    at = [one.key for one in place.snapshot.tools].index(tool)
    assert mask is None or bool(mask[at]) is verdict.allowed


def test_every_line_of_the_table_has_an_example() -> None:
    lines = {row[0] for row in rows("| line | condition | allowed |")}

    assert lines == {row[0] for row in EXAMPLES}


def test_a_project_that_shares_nothing_sees_its_own_servers_only() -> None:
    place = example_place()
    closed = ProjectRules(shared_servers=False)
    policy = Policy(place, PolicyInputs(projects={"web": closed}))
    local = Caller.local(project_id="web")

    assert policy.decide(local, "call", "notes:get").allowed
    assert not policy.decide(local, "call", "time:get").allowed


@pytest.mark.parametrize("patterns", [("time:s*",), ("tim?",), ("*",), ("notes", "time:set")])
def test_a_project_names_tools_that_count_as_read_only(patterns: tuple[str, ...]) -> None:
    """`read_only_allow`: they run where only read-only ones do, in lists and in calls alike."""
    place = example_place()
    rules = rules_of("allow * to everyone; deny time:drop to everyone")
    projects = {
        "web": ProjectRules(read_only=True, read_only_allow=patterns),
        "data": ProjectRules(read_only=True),
    }
    policy = Policy(place, PolicyInputs(required=True, rules=rules, projects=projects))
    keys = [one.key for one in place.snapshot.tools]
    for project, runs in (("web", True), ("data", False)):
        asker = caller(project=project)
        mask = policy.mask(asker, place.snapshot)
        assert mask is not None
        for key, expected in (("time:set", runs), ("time:get", True), ("time:drop", False)):
            assert policy.decide(asker, "call", key).allowed is expected
            assert bool(mask[keys.index(key)]) is expected
    steps = policy.steps(caller(project="web"), "time:set")
    step = next(one for one in steps if one.stage == "read_only")
    assert step.reason.endswith("the tool is in read_only_allow of the project.")


def test_a_project_can_claim_servers_and_several_can_claim_one() -> None:
    """`toolgate projects create NAME --server S`, or `servers` in the file."""
    place = example_place()
    claims = {"a": ProjectRules(servers=("time",)), "b": ProjectRules(servers=("time",))}
    policy = Policy(place, PolicyInputs(projects=claims))

    seen = {
        project: policy.decide(Caller.local(project_id=project), "call", "time:get").allowed
        for project in ("a", "b", "web", DEFAULT_PROJECT)
    }

    assert seen == {"a": True, "b": True, "web": False, DEFAULT_PROJECT: False}
    assert policy.projects_of("time") == ("a", "b")


def test_marks_of_a_server_that_is_not_trusted_count_for_nothing() -> None:
    place = FakeCatalog()
    tool = Tool(key="a:get", read_only=True, destructive=False)
    place.reload([server("a", trust=False)], [tool])
    policy = Policy(
        place, PolicyInputs(required=True, rules=rules_of("allow * (read_only) to everyone"))
    )

    assert not policy.decide(caller(), "call", "a:get").allowed
    assert seen(policy, caller(), place) == 0


def test_a_change_of_rules_servers_or_tools_holds_from_the_next_question() -> None:
    place = example_place()
    policy = Policy(place, PolicyInputs(required=True))
    anna = caller(token="anna")
    assert seen(policy, anna, place) == 0

    policy.reload(PolicyInputs(required=True, rules=rules_of("allow time to token:anna")))
    assert policy.decide(anna, "call", "time:get").allowed
    assert seen(policy, anna, place) == 3

    place.reload([server("time", project="web")], [Tool(key="time:get")])
    assert not policy.decide(anna, "call", "time:get").allowed
    assert seen(policy, anna, place) == 0


@pytest.mark.parametrize(
    ("allowed", "denied", "is_known"),
    [
        ("resource=time:*", "resource=time:*", False),
        ("prompt=time:noon", "prompt=time:*", False),
        ("resource=time:mem://*", "resource=*", False),
        ("resource=time:*", "resource=time:mem://*", True),
        ("resource=time:*", "prompt=time:*", True),
    ],
)
def test_a_server_is_unknown_where_a_denial_takes_all_that_is_allowed_of_it(
    allowed: str, denied: str, is_known: bool
) -> None:
    rules = rules_of(f"allow {allowed} to everyone; deny {denied} to everyone")
    policy = Policy(example_place(), PolicyInputs(required=True, rules=rules))

    assert policy.decide(caller(), "server", "time").allowed is is_known


def test_a_server_is_known_to_those_who_may_use_anything_of_it() -> None:
    place = example_place()
    rules = rules_of(
        "allow time:get to token:a; allow resource=time:* to token:b; allow * to token:c;"
        "deny time to token:c; allow right=manage to token:d;"
        "allow time (destructive) to token:e; deny time:* to token:e"
    )
    policy = Policy(place, PolicyInputs(required=True, rules=rules))

    seen = {name: policy.decide(caller(token=name), "reach", "time").allowed for name in "abcdex"}

    assert seen == {"a": True, "b": True, "c": False, "d": False, "e": False, "x": False}
    assert policy.decide(caller(token="d"), "server", "notes").allowed  # it looks after all


def test_rights_are_had_by_rule_and_by_the_local_user_alone() -> None:
    policy = Policy(example_place(), PolicyInputs(required=True, rules=rules_of(
        "allow right=internal to token:a; allow * to token:b"
    )))  # fmt: skip

    def rights(who: Caller) -> list[bool]:
        return [policy.decide(who, "right", name).allowed for name in ("manage", "internal")]

    assert rights(caller(token="a")) == [False, True]
    assert rights(caller(token="b")) == [False, False]
    assert rights(caller(roles=("admin",))) == [True, True]
    assert rights(caller(roles=("member",))) == [False, False]
    assert rights(Caller.local()) == [True, True]


def test_a_star_in_a_name_is_no_star_of_a_role() -> None:
    """Names of tokens and users are compared, never matched."""
    policy = Policy(
        example_place(), PolicyInputs(required=True, rules=rules_of("allow * to user:*"))
    )

    assert not policy.decide(caller(user="anna"), "call", "time:get").allowed


def test_rules_that_do_nothing_are_found() -> None:
    rules = rules_of(
        "allow nothing:* to everyone; allow time:get to everyone; deny time:get to everyone;"
        "allow lost to everyone; allow * to everyone"
    )
    policy = Policy(example_place(), PolicyInputs(required=True, rules=rules))

    assert [rule.pattern for rule in policy.without_effect()] == ["nothing:*", "lost"]
    assert [(a.effect, d.effect) for a, d in policy.contradictions()] == [("allow", "deny")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("*", ("any", "*")),
        ("git*", ("server", "git*")),
        ("git:*", ("tool", "git:*")),
        ("server=git", ("server", "git")),
        ("resource=docs:file:///a=b", ("resource", "docs:file:///a=b")),
        ("prompt=docs:*", ("prompt", "docs:*")),
        ("right=manage", ("right", "manage")),
        ("right=fly", None),
        ("any=*", None),
        ("tool=", None),
        ("", None),
        ("a\nb", None),
        ("x" * 501, None),
    ],
)
def test_patterns_are_read_or_refused(text: str, found: tuple[str, str] | None) -> None:
    if found is None:
        with pytest.raises(ArgumentError):
            parse_pattern(text)
    else:
        assert parse_pattern(text) == found


def test_a_pattern_in_the_file_that_is_none_is_named_with_its_place() -> None:
    table = PermissionTable(to=("everyone",), allow=("right=fly",), source="x.toml, line 3")

    with pytest.raises(SettingError, match=r"x.toml, line 3: There is no right 'fly'"):
        list(rules_of_file([table]))


# Any rules, any callers

_names = st.sampled_from(["a", "b", "a-b", "A"])
_tools = st.builds(
    Tool,
    key=st.builds("{}:{}".format, _names, st.text("xyz_*?[].", min_size=1, max_size=4)),
    read_only=st.booleans(),
    destructive=st.booleans(),
)
_patterns = st.one_of(
    st.just("*"),
    st.text("ab*?-", min_size=1, max_size=4).filter(lambda text: text != "*"),
    st.builds(
        "{}:{}".format, st.text("abA*?-", max_size=3), st.text("xyz_*?[].", max_size=4)
    ),
)  # fmt: skip
_who = st.sampled_from(
    ["everyone", "token:t", "role:r", "role:member", "group:g", "user:u", "user@jwt:u", "project:p"]
)


@st.composite
def _rules(draw: st.DrawFn) -> AccessRule:
    kind, pattern = parse_pattern(draw(_patterns))
    return AccessRule(
        effect=draw(st.sampled_from(["allow", "deny"])),
        who=draw(_who),
        kind=kind,
        pattern=pattern,
        hint=draw(st.sampled_from(["", "", "read_only", "destructive"])),
    )


_callers = st.builds(
    caller,
    token=st.sampled_from(["", "t", "u"]),
    user=st.sampled_from(["", "u"]),
    roles=st.sampled_from([(), ("r",), ("member",), ("reader",), ("admin",)]),
    groups=st.sampled_from([(), ("g",)]),
    project=st.sampled_from([DEFAULT_PROJECT, "p", "q"]),
    read_only=st.booleans(),
    kind=st.sampled_from(["token", "token", "jwt", "local"]),
)


@settings(max_examples=150, deadline=None)
@given(
    tools=st.lists(_tools, max_size=12, unique_by=lambda tool: tool.key),
    rules=st.lists(_rules(), max_size=8),
    asker=_callers,
    required=st.booleans(),
    shares=st.booleans(),
    data=st.data(),
)
def test_a_mask_says_the_same_as_the_decision_about_each_tool(
    tools: list[Tool],
    rules: list[AccessRule],
    asker: Caller,
    required: bool,
    shares: bool,
    data: st.DataObject,
) -> None:
    place = FakeCatalog()
    servers = sorted({tool.server for tool in tools})
    place.reload(
        [
            server(
                name,
                project=data.draw(st.sampled_from([DEFAULT_PROJECT, "p", "q"])),
                trust=data.draw(st.booleans()),
                permissions={
                    tool.key.partition(":")[2]: data.draw(st.booleans())
                    for tool in tools
                    if tool.server == name and data.draw(st.integers(0, 3)) == 0
                }
                | data.draw(st.dictionaries(st.sampled_from(["*", "r*", "?"]), st.booleans())),
            )
            for name in servers
        ],
        tools,
    )
    projects = {"p": ProjectRules(shared_servers=shares, read_only=data.draw(st.booleans()))}
    policy = Policy(place, PolicyInputs(required=required, rules=tuple(rules), projects=projects))

    mask = policy.mask(asker, place.snapshot)
    decided = [policy.decide(asker, "list", tool.key).allowed for tool in tools]
    fresh = Policy(place, policy.inputs)

    assert ([True] * len(tools) if mask is None else mask.tolist()) == decided
    assert [fresh.decide(asker, "call", tool.key).allowed for tool in tools] == decided
    steps = [all(step.passed for step in policy.steps(asker, tool.key)) for tool in tools]
    assert steps == decided


@settings(max_examples=150, deadline=None)
@given(rules=st.lists(_rules(), max_size=6), more=_rules(), asker=_callers)
def test_another_allow_hides_nothing_and_another_deny_shows_nothing(
    rules: list[AccessRule], more: AccessRule, asker: Caller
) -> None:
    place = FakeCatalog()
    place.reload(
        [server("a"), server("b")],
        [Tool(key=f"{name}:{tool}") for name in "ab" for tool in ("x", "xy", "z")],
    )

    def seen(having: list[AccessRule]) -> set[str]:
        policy = Policy(place, PolicyInputs(required=True, rules=tuple(having)))
        return {
            tool.key
            for tool in place.snapshot.tools
            if policy.decide(asker, "list", tool.key).allowed
        }

    before, after = seen(rules), seen([*rules, more])
    assert before <= after if more.effect == "allow" else after <= before


def test_a_pattern_of_many_stars_is_quick() -> None:
    """What an administrator types must not stop the gateway."""
    place = FakeCatalog()
    place.reload([server("a")], [Tool(key="a:" + "x" * 200)])
    rule = AccessRule(effect="allow", who="everyone", kind="tool", pattern="*x" * 60 + "y")
    policy = Policy(place, PolicyInputs(required=True, rules=(rule,)))

    assert not policy.decide(caller(), "call", place.snapshot.tools[0].key).allowed


def test_callers_with_the_same_rights_share_what_was_decided() -> None:
    """So that ten thousand tokens do not need ten thousand masks."""
    place = example_place()
    policy = Policy(place, PolicyInputs(required=True, rules=rules_of("allow time to role:dev")))
    masks = {
        id(policy.mask(caller(token=f"t{number}", roles=("dev", f"r{number}")), place.snapshot))
        for number in range(20)
    }

    assert len(masks) == 1
    assert Identity().kind == "local"


def test_the_name_of_a_tool_counts_before_patterns_and_the_longest_of_those() -> None:
    permissions = {"*": False, "read_*": True, "read_secret*": False, "write": True}
    names = ("read_a", "read_secret_b", "write", "other")
    place = FakeCatalog()
    place.reload([server("s", permissions=permissions)], [Tool(key=f"s:{name}") for name in names])
    policy = Policy(place)
    allowed = [policy.decide(Caller.local(), "call", f"s:{name}").allowed for name in names]
    assert allowed == [True, False, True, False]
    mask = policy.mask(Caller.local(), place.snapshot)
    assert mask is not None
    assert mask.tolist() == allowed

"""Which tools intents mean by a name, while servers come, change and go."""

from toolgate.catalog import ServerEntries, Snapshot, build_entries
from toolgate.intents import Intent, IntentSet
from toolgate.intents.service import ToolNames

WEATHER = Intent(name="weather", pack="sky", tools=("forecast", "rain:radar"))
TAUGHT = IntentSet(version="1", intents=(WEATHER,))


def server(name: str, *tools: str) -> ServerEntries:
    return build_entries(name, tools=[{"name": tool} for tool in tools])


def meant(names: ToolNames, snapshot: Snapshot, name: str, taught: IntentSet = TAUGHT) -> list[str]:
    return [entry.key for entry in names.entries(snapshot, taught, taught.intents[0], name)]


def test_a_name_means_the_tools_of_the_servers_that_are_there_now() -> None:
    """Only servers that changed are looked through: the others keep what was found in them."""
    names, first, last = ToolNames(), server("a", "forecast"), server("z", "forecast", "other")

    assert meant(names, Snapshot(1, {"a": first, "z": last}), "forecast") == [
        "a:forecast",
        "z:forecast",
    ]
    changed = {"a": server("a", "other"), "m": server("m", "forecast"), "z": last}
    assert meant(names, Snapshot(2, changed), "forecast") == ["m:forecast", "z:forecast"]
    assert meant(names, Snapshot(3, {"z": last, "a": first}), "forecast") == [
        "z:forecast",
        "a:forecast",
    ]
    assert meant(names, Snapshot(4, {}), "forecast") == []


def test_a_key_and_the_tool_of_the_own_pack_come_before_all_others() -> None:
    names = ToolNames()
    servers = {"a": server("a", "forecast"), "sky": server("sky", "forecast")}

    assert meant(names, Snapshot(1, servers), "forecast") == ["sky:forecast"]
    assert meant(names, Snapshot(1, servers), "rain:radar") == []
    servers["rain"] = server("rain", "radar")
    assert meant(names, Snapshot(2, servers), "rain:radar") == ["rain:radar"]


def test_other_intents_are_looked_for_in_all_servers() -> None:
    names, snapshot = ToolNames(), Snapshot(1, {"a": server("a", "forecast", "tides")})
    taught = IntentSet(version="2", intents=(Intent(name="sea", pack="sky", tools=("tides",)),))

    assert meant(names, snapshot, "tides") == []
    assert meant(names, snapshot, "tides", taught) == ["a:tides"]


def test_a_snapshot_says_where_the_tools_of_a_server_are() -> None:
    servers = {"a": server("a", "one", "two"), "b": server("b"), "c": server("c", "three")}
    snapshot = Snapshot(1, servers)

    spans = {name: snapshot.span(name) for name in (*servers, "absent")}

    assert {name: [t.key for t in snapshot.tools[span]] for name, span in spans.items()} == {
        "a": ["a:one", "a:two"],
        "b": [],
        "c": ["c:three"],
        "absent": [],
    }

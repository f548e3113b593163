"""Tools for value lists, answering in the words of source document 000 and its later version."""

from pathlib import Path
from typing import Any

import pytest

from tests.packs.builtin.servoy.workspaces import (
    RELATION,
    VALUE_LIST,
    Dialect,
    call,
    files,
    make,
    put,
    uuids_hidden,
)


async def properties_of(root: Path, **given: Any) -> dict[str, Any]:
    """What a new value list has, without name and identity."""
    said = await call(root, "openValueList", name="fresh", **given)
    assert said.first == "Value list 'fresh' created successfully", said.text
    own = said.structured["properties"]
    return {key: own[key] for key in own if key not in {"name", "typeid", "uuid"}}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            "plain",
            'customValues:"Active\\\nInactive|0\\\nPending",\nname:"fresh",\ntypeid:34,\n'
            'uuid:"UUID"',
        ),
        (
            "json",
            '{\n    "customValues":"Active\\\nInactive|0\\\nPending",\n    "name":"fresh",\n'
            '    "typeid":34,\n    "uuid":"UUID"\n}',
        ),
    ],
)
async def test_written_values_become_a_custom_list(
    tmp_path: Path, dialect: Dialect, expected: str
) -> None:
    """Values are trimmed and blank ones dropped, as the original did."""
    root = make(tmp_path, dialect)

    await properties_of(root, customValues=[" Active ", "", "Inactive|0", "Pending"])

    text = (root / "shop/valuelists/fresh.val").read_bytes().decode()
    assert uuids_hidden(text) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"values": ["a"]}, {"customValues": "a"}),
        ({"customValues": None}, {}),
        ({"customValues": ["with \\| bar"]}, {"customValues": "with \\| bar"}),
        (
            {"dataSource": "example_data/employees", "displayColumn": "lastname"},
            {
                "dataProviderID1": "lastname",
                "dataSource": "db:/example_data/employees",
                "returnDataProviders": 1,
                "showDataProviders": 1,
                "valueListType": 1,
            },
        ),
        (
            {
                "dataSource": "db:/example_data/employees",
                "displayColumn": "LastName",
                "returnColumn": "employeeid",
                "customValues": ["ignored"],
                "separator": "-",
                "sortOptions": "DESC",
            },
            {
                "dataProviderID1": "lastname",
                "dataProviderID2": "employeeid",
                "dataSource": "db:/example_data/employees",
                "returnDataProviders": 2,
                "separator": "-",
                "showDataProviders": 1,
                "sortOptions": "lastname desc",
                "valueListType": 1,
            },
        ),
        (
            {"dataSource": "example_data/employees", "returnColumn": "employeeid"},
            {
                "dataProviderID1": "employeeid",
                "dataSource": "db:/example_data/employees",
                "returnDataProviders": 1,
                "showDataProviders": 1,
                "valueListType": 1,
            },
        ),
        (
            {
                "dataSource": "example_data/customers",
                "displayColumn": ["companyname", "country", "customerid"],
                "sortOptions": "country asc, companyname",
            },
            {
                "dataProviderID1": "companyname",
                "dataProviderID2": "country",
                "dataProviderID3": "customerid",
                "dataSource": "db:/example_data/customers",
                "returnDataProviders": 7,
                "showDataProviders": 7,
                "sortOptions": "country asc, companyname",
                "valueListType": 1,
            },
        ),
        (
            {"relationName": "orders_to_customers", "displayColumn": "companyname"},
            {
                "dataProviderID1": "companyname",
                "relationName": "orders_to_customers",
                "returnDataProviders": 1,
                "showDataProviders": 1,
                "valueListType": 1,
            },
        ),
        (
            {"globalMethod": "scopes.globals.getCountries"},
            {"customValues": "AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE", "valueListType": 4},
        ),
        (
            {"globalMethod": "globals.getPlanets"},
            {"customValues": "scopes.globals.getPlanets", "valueListType": 4},
        ),
        (
            {
                "properties": {
                    "addEmptyValue": False,
                    "useTableFilter": True,
                    "realValueType": "integer",
                    "lazyLoading": False,
                    "encapsulation": "public",
                    "fallbackValueList": "order_status",
                }
            },
            {
                "addEmptyValue": 1,
                "customProperties": "lazyLoading:false",
                "fallbackValueListID": VALUE_LIST["uuid"],
                "realValueType": 4,
                "useTableFilter": True,
            },
        ),
        ({"properties": {"addEmptyValue": True}}, {}),
        ({"properties": {"addEmptyValue": "on creation"}}, {"addEmptyValue": 2}),
    ],
)
async def test_a_value_list_is_made_of_what_was_given(
    tmp_path: Path, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Facts 3.4: 0 is always and 1 never; 3.5: a fallback is kept by UUID."""
    assert await properties_of(make(tmp_path), **given) == expected


async def test_custom_properties_are_an_object_in_the_json_dialect(tmp_path: Path) -> None:
    own = await properties_of(make(tmp_path, "json"), properties={"lazyLoading": True})

    assert own == {"customProperties": {"lazyLoading": True}}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": ""}, "The 'name' argument is required."),
        (
            {"dataSource": "nowhere", "displayColumn": "x"},
            "Invalid dataSource format: 'nowhere'.",
        ),
        ({"dataSource": "example_data/nope", "displayColumn": "x"}, "Table 'nope' not found"),
        ({"dataSource": "example_data/employees", "displayColumn": "x"}, "Column 'x' not found"),
        ({"dataSource": "example_data/employees"}, "needs a 'displayColumn'"),
        (
            {
                "dataSource": "example_data/orders",
                "displayColumn": "orderid, customerid, employeeid, orderdate",
            },
            "3 columns at most",
        ),
        (
            {
                "dataSource": "example_data/employees",
                "displayColumn": "lastname",
                "sortOptions": "lastname up",
            },
            "The sort 'lastname up' is none",
        ),
        ({"customValues": ["a\nb"]}, "holds a line break"),
        ({"customValues": ["a|b|c"]}, "more than one '|'"),
        ({"relationName": "nope", "displayColumn": "x"}, "Relation 'nope' not found"),
        ({"relationName": "orders_to_customers.orders_to_customers"}, "do not follow each other"),
        ({"globalMethod": "no method"}, "'no method' names no method"),
        ({"name": "two words", "customValues": ["a"]}, "it holds a blank"),
        ({"name": "../x", "customValues": ["a"]}, "it is no name, but a path"),
        ({"name": "Order_Status", "customValues": ["a"]}, "already, in the active solution"),
        ({"properties": {"addEmptyValue": "sometimes"}}, "Allowed: always, never, on creation"),
        ({"properties": {"fallbackValueList": "nope"}}, "Value list 'nope' not found"),
        ({"properties": {"color": "red"}}, "There is no property 'color'"),
    ],
)
async def test_a_list_that_cannot_be_is_refused_and_nothing_is_written(
    tmp_path: Path, given: dict[str, Any], reason: str
) -> None:
    """Facts 3.1: the original left an empty list behind when the data source was malformed."""
    root = make(tmp_path)
    before = files(root)

    said = await call(root, "openValueList", **{"name": "fresh", **given})

    assert said.is_error
    assert reason in said.text
    assert files(root) == before


async def test_one_that_exists_is_opened(tmp_path: Path) -> None:
    root = make(tmp_path)
    before = files(root)

    said = await call(root, "openValueList", name="order_status")

    assert said.first == "Value list 'order_status' opened in editor."
    assert said.structured["values"] == ["Active", "Inactive|0", "Pending"]
    assert files(root) == before


async def test_properties_of_one_that_exists_are_changed(tmp_path: Path) -> None:
    root = make(tmp_path)
    path = root / "shop/valuelists/order_status.val"
    before = path.read_text()

    said = await call(
        root, "openValueList", name="order_status", properties={"addEmptyValue": True}
    )

    assert "Changed: addEmptyValue." in said.text
    assert path.read_text() == before.replace("addEmptyValue:1,\n", "")


async def changed(root: Path, **given: Any) -> tuple[str, dict[str, Any]]:
    said = await call(root, "openValueList", name="order_status", **given)
    assert not said.is_error, said.text
    return said.text, said.structured["properties"]


@pytest.mark.parametrize("dialect", ["plain", "json"])
async def test_values_of_one_that_exists_are_changed_and_it_keeps_its_uuid(
    tmp_path: Path, dialect: Dialect
) -> None:
    root = make(tmp_path, dialect)

    text, replaced = await changed(root, customValues=["New", "Old"])
    _, added = await changed(root, addValues=["Archived", "old"], removeValues=["New"])
    _, table = await changed(
        root, dataSource="employees", displayColumn="lastname", returnColumn="employeeid"
    )
    _, sorted_list = await changed(root, sortOptions="lastname desc", separator=" - ")
    _, other = await changed(root, displayColumn="employeeid")

    assert "Changed: customValues." in text
    assert replaced == {**VALUE_LIST, "customValues": "New\nOld"}
    assert added["customValues"] == "Old\nArchived"
    assert "customValues" not in table
    assert table["dataSource"] == "db:/example_data/employees"
    assert (table["showDataProviders"], table["returnDataProviders"]) == (1, 2)
    assert (sorted_list["sortOptions"], sorted_list["separator"]) == ("lastname desc", " - ")
    assert other["dataProviderID1"] == "employeeid"
    assert other["uuid"] == table["uuid"] == VALUE_LIST["uuid"]
    assert other["addEmptyValue"] == VALUE_LIST["addEmptyValue"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"removeValues": ["Nothing"]}, "The list has no value 'Nothing'"),
        ({"addValues": ["x"], "customValues": ["y"]}, "not together with 'customValues'"),
        ({"displayColumn": "lastname"}, "takes its values from no table"),
        ({"dataSource": "example_data/nope", "displayColumn": "x"}, "Table 'nope' not found"),
    ],
)
async def test_a_change_that_cannot_be_is_refused(
    tmp_path: Path, given: dict[str, Any], reason: str
) -> None:
    root = make(tmp_path)
    before = files(root)

    said = await call(root, "openValueList", name="order_status", **given)

    assert said.is_error
    assert reason in said.text
    assert files(root) == before


async def test_what_is_given_and_not_used_is_named(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(
        root,
        "openValueList",
        name="people",
        dataSource="example_data/employees",
        displayColumn="lastname",
        customValues=["x"],
    )

    assert "Not used, since 'dataSource' was given: customValues." in said.text


async def test_a_value_that_is_there_is_not_added_again_and_it_is_said(tmp_path: Path) -> None:
    """The answer was only "Changed", although one of two values was left out."""
    root = make(tmp_path)
    said = await call(root, "openValueList", name="order_status", addValues=["Done|9", "Active|1"])

    assert "Not added, since the list has it already: Active." in said.text
    assert said.structured["values"] == [*("Active", "Inactive|0", "Pending", "Done|9")]


async def test_a_value_that_is_removed_and_added_stores_something_else(tmp_path: Path) -> None:
    """It was removed and not added, and the tool reported success."""
    root = make(tmp_path)
    said = await call(
        root, "openValueList", name="order_status", removeValues=["Active"], addValues=["Active|1"]
    )

    assert said.structured["values"] == ["Inactive|0", "Pending", "Active|1"]


async def test_all_values_can_be_removed(tmp_path: Path) -> None:
    """The tool reported that nothing had to be changed."""
    root = make(tmp_path)
    gone = ["Active", "Inactive", "Pending"]
    said = await call(root, "openValueList", name="order_status", removeValues=gone)

    assert not said.is_error
    assert said.structured["values"] == []


async def test_values_with_a_bar_of_their_own_are_told_apart(tmp_path: Path) -> None:
    """Only the text before the first bar was compared."""
    root = make(tmp_path)
    await call(root, "openValueList", name="sizes", customValues=["a\\|b", "a\\|c"])
    said = await call(root, "openValueList", name="sizes", removeValues=["a\\|b"])

    assert said.structured["values"] == ["a\\|c"]


async def test_the_older_name_of_the_values_is_named_if_it_is_not_used(tmp_path: Path) -> None:
    root = make(tmp_path)
    for name in ("order_status", "sizes"):
        said = await call(root, "openValueList", name=name, customValues=["a"], values=["b"])
        assert "Not used, since 'customValues' was given: values." in said.text


async def test_value_lists_are_listed_as_the_original_lists_them(tmp_path: Path) -> None:
    root = make(tmp_path)
    numbers = "\n".join(str(number) for number in range(1, 9))
    folder = root / "shop/valuelists"
    put(folder / "n.val", {**VALUE_LIST, "name": "n", "customValues": numbers}, "plain")
    put(folder / "g.val", {**VALUE_LIST, "name": "g", "valueListType": 4}, "plain")
    put(folder / "t.val", {**VALUE_LIST, "name": "t", "valueListType": 9}, "plain")
    old = {"serverName": "s", "tableName": "t", "dataProviderID1": "c", "valueListType": 1}
    put(folder / "d.val", {**VALUE_LIST, "name": "d", **old}, "plain")

    said = await call(root, "listValueLists")

    assert said.text == (
        "Value lists in solution 'shop':\n\n"
        "1. d (DATABASE_VALUES)\n   DataSource: db:/s/t\n   Column: c\n"
        "2. g (GLOBAL_METHOD)\n"
        "3. n (CUSTOM_VALUES)\n   Values: 1, 2, 3, 4, 5 (and 3 more...)\n"
        "4. order_status (CUSTOM_VALUES)\n   Values: Active, Inactive|0, Pending\n"
        "5. t (type=9)"
    )


async def test_a_solution_without_value_lists_says_so(tmp_path: Path) -> None:
    root = make(tmp_path)
    await call(root, "deleteValueList", name="order_status")

    said = await call(root, "listValueLists")
    scoped = await call(root, "getValueLists", scope="current")

    assert said.text == "Value lists in solution 'shop':\n\nNo value lists found."
    assert scoped.text == said.text


async def test_a_deleted_list_names_the_forms_that_use_it(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(root, "deleteValueList", name="order_status")
    again = await call(root, "deleteValueList", name="order_status")

    assert said.first == "Value list 'order_status' deleted successfully."
    assert "shop/forms/orders.frm" in said.text
    assert "shop/globals.js:5" in said.text
    assert again.text == "Value list 'order_status' not found."
    assert again.is_error


async def test_several_are_deleted_together_or_not_at_all(tmp_path: Path) -> None:
    root = make(tmp_path)
    put(root / "mod_base/valuelists/m.val", {**VALUE_LIST, "name": "m"}, "plain")

    asked = await call(root, "deleteValueLists", names=["order_status", "m"])
    done = await call(root, "deleteValueLists", names="order_status")
    none = await call(root, "deleteValueLists")

    assert asked.text.startswith("To delete this value list, I need to switch to mod_base.")
    assert done.first == "Successfully deleted 1 value list(s): order_status"
    assert none.text == "Error: 'names' parameter is required"


async def test_a_value_list_and_its_file_are_renamed_together(tmp_path: Path) -> None:
    root = make(tmp_path)
    text = (root / "shop/valuelists/order_status.val").read_text()

    said = await call(root, "renameValueList", oldName="order_status", newName="order_state")

    assert said.first == "Value list renamed successfully: 'order_status' is now 'order_state'."
    assert (root / "shop/valuelists/order_state.val").read_text() == text.replace(
        "order_status", "order_state"
    )
    assert [each["path"] for each in said.structured["references"]] == ["shop/globals.js"]


async def test_a_rename_elsewhere_asks_first(tmp_path: Path) -> None:
    root = make(tmp_path)
    put(root / "mod_base/valuelists/m.val", {**VALUE_LIST, "name": "m"}, "plain")

    said = await call(root, "renameValueList", oldName="m", newName="n")

    assert said.text == (
        "To rename this value list, I need to switch to mod_base. Do you want to proceed? "
        '[If yes, I will: setContext({"context": "mod_base"}) then rename]'
    )


async def test_a_chain_of_relations_ends_in_the_last_table(tmp_path: Path) -> None:
    root = make(tmp_path)
    back = {
        **RELATION,
        "name": "customers_to_orders",
        "primaryDataSource": "db:/example_data/customers",
        "foreignDataSource": "db:/example_data/orders",
    }
    put(root / "shop/relations/customers_to_orders.rel", back, "plain")

    own = await properties_of(
        root, relationName="orders_to_customers.customers_to_orders", displayColumn="orderdate"
    )

    assert own["relationName"] == "orders_to_customers.customers_to_orders"

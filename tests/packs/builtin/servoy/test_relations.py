"""Tools for relations, answering in the words of source document 000 and of its later version."""

from pathlib import Path
from typing import Any

import pytest

from tests.packs.builtin.servoy.workspaces import (
    RELATION,
    TABLES,
    Dialect,
    call,
    files,
    make,
    put,
    uuids_hidden,
)
from toolgate.packs.builtin.servoy.files.notation import parse_text

NEW: dict[str, Any] = {
    "name": "orders_to_employees",
    "primaryDataSource": "example_data/orders",
    "foreignDataSource": "db:/example_data/employees",
    "primaryColumn": "employeeid",
    "foreignColumn": "employeeid",
}
CREATED = (
    "Relation 'orders_to_employees' created successfully "
    "(from db:/example_data/orders to db:/example_data/employees)"
)

PLAIN = """\
allowCreationRelatedRecords:true,
foreignDataSource:"db:/example_data/employees",
items:[
{foreignColumnName:"employeeid",primaryDataProviderID:"employeeid",typeid:23,uuid:"UUID"}
],
joinType:1,
name:"orders_to_employees",
primaryDataSource:"db:/example_data/orders",
typeid:22,
uuid:"UUID\""""

JSON = """\
{
    "allowCreationRelatedRecords":true,
    "foreignDataSource":"db:/example_data/employees",
    "items":[
        {
            "foreignColumnName":"employeeid",
            "primaryDataProviderID":"employeeid",
            "typeid":23,
            "uuid":"UUID"
        }
    ],
    "joinType":1,
    "name":"orders_to_employees",
    "primaryDataSource":"db:/example_data/orders",
    "typeid":22,
    "uuid":"UUID"
}"""


@pytest.mark.parametrize(("dialect", "expected"), [("plain", PLAIN), ("json", JSON)])
async def test_a_new_relation_is_written_in_the_dialect_of_its_solution(
    tmp_path: Path, dialect: Dialect, expected: str
) -> None:
    root = make(tmp_path, dialect)

    said = await call(root, "openRelation", **NEW)

    written = (root / "shop/relations/orders_to_employees.rel").read_bytes().decode()
    assert said.first == CREATED
    assert not said.is_error
    assert uuids_hidden(written) == expected
    assert said.structured["path"] == str(root / "shop/relations/orders_to_employees.rel")


async def test_one_that_exists_is_opened_by_its_name(tmp_path: Path) -> None:
    root = make(tmp_path)
    before = files(root)

    said = await call(root, "openRelation", name="orders_to_customers")

    assert said.first == "Relation 'orders_to_customers' opened in editor."
    assert said.structured["keys"] == ["customerid = customerid", "shipcountry #= country"]
    assert str(root / "shop/relations/orders_to_customers.rel") in said.text
    assert files(root) == before


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "The 'name' argument is required."),
        ({"name": " "}, "The 'name' argument is required."),
        ({"name": None}, "The 'name' argument is required."),
        (
            {"name": "new_one"},
            "Relation 'new_one' not found. To create it, provide 'primaryDataSource' and "
            "'foreignDataSource'.",
        ),
        (
            {"name": "new_one", "primaryDataSource": "example_data/orders"},
            "Relation 'new_one' not found. To create it, provide 'primaryDataSource' and "
            "'foreignDataSource'.",
        ),
        (
            {**NEW, "primaryDataSource": "nowhere"},
            "Invalid primaryDataSource format: 'nowhere'. Please provide format "
            "'db:/server_name/table_name' or 'server_name/table_name'",
        ),
        (
            {**NEW, "foreignDataSource": "../etc/passwd"},
            "Invalid foreignDataSource format: '../etc/passwd'. Please provide format "
            "'db:/server_name/table_name' or 'server_name/table_name'",
        ),
        (
            {"name": "Orders_To_Customers"},
            "Relation 'Orders_To_Customers' not found. To create it, provide 'primaryDataSource' "
            "and 'foreignDataSource'.\nDid you mean 'orders_to_customers'? Names differ by case.",
        ),
    ],
)
async def test_what_is_missing_or_malformed_is_answered_in_the_words_of_the_original(
    tmp_path: Path, given: dict[str, Any], text: str
) -> None:
    root = make(tmp_path)
    before = files(root)

    said = await call(root, "openRelation", **given)

    assert said.text == text
    assert said.is_error
    assert files(root) == before


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": "two words"}, "it holds a blank"),
        ({"name": "../../evil"}, "it is no name, but a path"),
        ({"name": "a/b"}, "it is no name, but a path"),
        ({"name": "class"}, "it is a word of JavaScript, Java or Servoy"),
        ({"name": "Foundset"}, "it is a word of JavaScript, Java or Servoy"),
        ({"name": "nul"}, "operating systems keep it for a device"),
        ({"name": "1st"}, "no digit first"),
        ({"name": "a-b"}, "only letters, digits, _ and $ may stand in it"),
        ({"name": "x" * 300}, "more than 200 characters"),
        (
            {"name": "ORDERS_to_customers"},
            "There is a relation 'orders_to_customers' already, in the active solution 'shop' "
            "(names are compared without case)",
        ),
        (
            {"primaryDataSource": "exmaple_data/orders"},
            "Database server 'exmaple_data' not found. Check that the server is configured and "
            "valid.\nKnown: example_data.",
        ),
        ({"foreignDataSource": "example_data/staff"}, "Table 'staff' not found in server"),
        (
            {"foreignDataSource": "example_data/Employees"},
            "Table 'Employees' not found in server 'example_data'.\nDid you mean 'employees'?",
        ),
        ({"primaryColumn": "empid"}, "Column 'empid' not found in table 'orders'"),
        ({"foreignColumn": "empid"}, "Column 'empid' not found in table 'employees'"),
        (
            {"primaryColumn": "customerid"},
            "Column 'customerid' of table 'orders' is text <12,5,0> and column 'employeeid' of "
            "table 'employees' is integer <4,0,0>",
        ),
        ({"properties": {"jointype": "inner"}}, "There is no property 'jointype'"),
        ({"properties": {"joinType": "full"}}, "Allowed: inner, left outer"),
        ({"properties": {"deleteRelatedRecords": "maybe"}}, "It has to be true or false"),
        ({"properties": {"initialSort": 5}}, "It has to be a text"),
    ],
)
async def test_a_relation_that_cannot_be_is_refused_and_nothing_is_written(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    """Facts 3.1, 3.2: the original left halves behind and reported success."""
    root = make(tmp_path)
    before = files(root)

    said = await call(root, "openRelation", **{**NEW, **changed})

    assert said.is_error
    assert reason in said.text
    assert files(root) == before


async def test_a_name_that_a_module_has_is_taken(tmp_path: Path) -> None:
    root = make(tmp_path)
    taken = {**RELATION, "name": "ORDERS_to_employees"}
    put(root / "mod_base/relations/ORDERS_to_employees.rel", taken, "plain")

    said = await call(root, "openRelation", **NEW)

    assert said.is_error
    assert "already, in the module 'mod_base'" in said.text


async def test_without_both_columns_there_is_no_pair_of_keys_and_it_is_said(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(root, "openRelation", **{**NEW, "foreignColumn": ""})

    assert said.first == CREATED
    assert "items" not in (root / "shop/relations/orders_to_employees.rel").read_text()
    assert "'foreignColumn' is missing" in said.text


@pytest.mark.parametrize(
    "column", ["scopes.login.user_id", "globals.user_id", "LITERAL:'x'", "full_id"]
)
async def test_the_primary_side_may_be_a_variable_a_literal_or_a_calculation(
    tmp_path: Path, column: str
) -> None:
    root = make(tmp_path)
    folder = root / "shop/datasources/example_data"
    folder.mkdir(parents=True)
    (folder / "orders_calculations.js").write_text("function full_id()\n{\n\treturn 1;\n}\n")

    said = await call(root, "openRelation", **{**NEW, "primaryColumn": column})

    assert said.first == CREATED
    assert said.structured["keys"] == [f"{column} = employeeid"]


async def test_without_table_definitions_a_relation_is_made_and_said_to_be_unchecked(
    tmp_path: Path,
) -> None:
    root = make(tmp_path, tables=None)

    said = await call(root, "openRelation", **NEW)

    assert said.first == CREATED
    assert "tables and columns were not checked" in said.text


async def test_properties_are_set_and_defaults_left_out(tmp_path: Path) -> None:
    """Facts 4.8: `inner` removes joinType, and only `false` of the parent's deletion is written."""
    root = make(tmp_path)
    properties = {
        "joinType": "inner",
        "allowParentDeleteWhenHavingRelatedRecords": False,
        "deleteRelatedRecords": "true",
        "initialSort": "lastname asc",
        "encapsulation": "module",
        "comment": "who took it",
        "deprecated": "",
    }

    said = await call(root, "openRelation", **NEW, properties=properties)

    assert said.structured["properties"] == {
        "allowCreationRelatedRecords": True,
        "allowParentDeleteWhenHavingRelatedRecords": False,
        "comment": "who took it",
        "deleteRelatedRecords": True,
        "encapsulation": 2,
        "foreignDataSource": "db:/example_data/employees",
        "initialSort": "lastname asc",
        "items": said.structured["properties"]["items"],
        "name": "orders_to_employees",
        "primaryDataSource": "db:/example_data/orders",
        "typeid": 22,
        "uuid": said.structured["properties"]["uuid"],
    }


@pytest.mark.parametrize("dialect", ["plain", "json"])
async def test_a_change_touches_its_property_alone(tmp_path: Path, dialect: Dialect) -> None:
    """Facts 3.6: what is not named stays; unknown properties and old names too."""
    root = make(tmp_path, dialect)
    old = {key: value for key, value in RELATION.items() if key != "primaryDataSource"}
    old |= {
        "allowCreationRelatedRecords": False,
        "primaryServerName": "example_data",
        "primaryTableName": "orders",
        "someFutureProperty": [1, "x"],
        "uuid": "7b1f3c52-9d0e-4e7a-8a55-2f6c1d9e0b47",
    }
    path = put(root / "shop/relations/orders_to_customers.rel", old, dialect)
    before = path.read_text()

    said = await call(
        root, "openRelation", name="orders_to_customers", properties={"initialSort": "country asc"}
    )

    quote = '"' if dialect == "json" else ""
    line = f'{quote}initialSort{quote}:"country asc",'
    assert said.first == "Relation 'orders_to_customers' opened in editor."
    assert "Changed: initialSort." in said.text
    assert said.structured["primaryDataSource"] == "db:/example_data/orders"
    assert [each for each in path.read_text().split("\n") if each.strip() != line] == [
        each for each in before.split("\n") if each.strip() != line
    ]
    assert line in path.read_text()


async def test_nothing_is_written_where_nothing_changes(tmp_path: Path) -> None:
    root = make(tmp_path)
    before = files(root)

    said = await call(
        root, "openRelation", name="orders_to_customers", properties={"joinType": "left outer"}
    )

    assert "Nothing had to be changed." in said.text
    assert files(root) == before


def items_in(root: Path) -> dict[str, str]:
    """The UUID of each pair of keys by its columns, and that of the relation by its name."""
    said = (root / "shop/relations/orders_to_customers.rel").read_text()
    fields = parse_text(said).root
    assert isinstance(fields, dict)
    items = fields["items"]
    assert isinstance(items, list)
    pairs: dict[str, str] = {}
    for item in items:
        assert isinstance(item, dict)
        operator = item.get("operator", 0)
        columns = f"{item['primaryDataProviderID']} {operator} {item['foreignColumnName']}"
        pairs[columns] = str(item["uuid"])
    return {"": str(fields["uuid"]), **pairs}


@pytest.mark.parametrize("dialect", ["plain", "json"])
async def test_keys_of_one_that_exists_are_changed_and_what_stays_keeps_its_uuid(
    tmp_path: Path, dialect: Dialect
) -> None:
    root = make(tmp_path, dialect)
    before = items_in(root)

    said = await call(
        root,
        "openRelation",
        name="orders_to_customers",
        keys=[
            {"primaryColumn": "customerid", "foreignColumn": "customerid", "operator": "!="},
            {"primaryColumn": "shipcountry", "foreignColumn": "companyname"},
        ],
    )

    after = items_in(root)
    assert "Changed: keys." in said.text
    assert said.structured["keys"] in (
        ["customerid != customerid", "shipcountry = companyname"],
        ["shipcountry = companyname", "customerid != customerid"],
    )
    assert after[""] == before[""]
    assert after["customerid 5 customerid"] == before["customerid 0 customerid"]
    assert len(after) == 3


async def test_data_sources_of_one_that_exists_are_changed(tmp_path: Path) -> None:
    root = make(tmp_path)
    before = items_in(root)
    path = root / "shop/relations/orders_to_customers.rel"

    refused = await call(
        root, "openRelation", name="orders_to_customers", foreignDataSource="employees"
    )
    unchanged = items_in(root)
    said = await call(
        root,
        "openRelation",
        name="orders_to_customers",
        foreignDataSource="employees",
        keys=[{"primaryColumn": "employeeid", "foreignColumn": "employeeid"}],
    )

    assert "Column 'customerid' not found in table 'employees'" in refused.text
    assert unchanged == before
    assert "Changed: keys, data sources." in said.text
    assert said.structured["foreignDataSource"] == "db:/example_data/employees"
    assert items_in(root)[""] == before[""]
    assert "employees" in path.read_text()


async def test_one_pair_for_a_relation_with_several_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path)
    before = files(root)

    said = await call(
        root,
        "openRelation",
        name="orders_to_customers",
        primaryColumn="orderid",
        foreignColumn="country",
    )

    assert said.is_error
    assert "has 2 pairs of keys" in said.text
    assert files(root) == before


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"keys": [{"primaryColumn": "customerid"}]}, "Each needs primaryColumn and foreignColumn"),
        (
            {"keys": [{"primaryColumn": "a", "foreignColumn": "b", "operator": "between"}]},
            "There is no operator 'between'",
        ),
        (
            {"keys": [{"primaryColumn": "a", "foreignColumn": "b", "operator": "#>"}]},
            "There is no operator '#>'",
        ),
        ({"properties": {"initialSort": "nothing asc"}}, "Column 'nothing' not found"),
        ({"properties": {"initialSort": "country up"}}, "The sort 'country up' is none"),
    ],
)
async def test_a_change_that_cannot_be_is_refused(
    tmp_path: Path, given: dict[str, Any], reason: str
) -> None:
    root = make(tmp_path)
    before = files(root)

    said = await call(root, "openRelation", name="orders_to_customers", **given)

    assert said.is_error
    assert reason in said.text
    assert files(root) == before


@pytest.mark.parametrize("properties", [{}, {"comment": "Read this"}])
async def test_a_lone_column_for_one_that_exists_is_named(
    tmp_path: Path, properties: dict[str, Any]
) -> None:
    """It was ignored without a word."""
    said = await call(
        make(tmp_path),
        "openRelation",
        name="orders_to_customers",
        primaryColumn="customerid",
        properties=properties,
    )
    assert "No pair of keys was made, since 'foreignColumn' is missing." in said.text


async def test_relations_are_listed_as_the_original_lists_them(tmp_path: Path) -> None:
    root = make(tmp_path)
    await call(root, "openRelation", **NEW)
    await call(root, "openRelation", **{**NEW, "name": "A_first"})

    said = await call(root, "listRelations")

    assert said.text == (
        "Relations in solution 'shop':\n\n"
        "1. A_first\n   Primary: db:/example_data/orders\n"
        "   Foreign: db:/example_data/employees\n"
        "2. orders_to_customers\n   Primary: db:/example_data/orders\n"
        "   Foreign: db:/example_data/customers\n"
        "3. orders_to_employees\n   Primary: db:/example_data/orders\n"
        "   Foreign: db:/example_data/employees"
    )


async def test_a_solution_without_relations_says_so(tmp_path: Path) -> None:
    root = make(tmp_path)
    (root / "shop/relations/orders_to_customers.rel").unlink()

    said = await call(root, "listRelations")

    assert said.text == "Relations in solution 'shop':\n\nNo relations found."
    assert not said.is_error


async def test_the_scope_of_a_listing_is_current_or_all(tmp_path: Path) -> None:
    root = make(tmp_path)
    put(root / "mod_base/relations/m.rel", {**RELATION, "name": "m"}, "plain")

    everything = await call(root, "getRelations")
    current = await call(root, "getRelations", scope="current")
    wrong = await call(root, "getRelations", scope="mine")

    assert [each["name"] for each in everything.structured["relations"]] == [
        "m",
        "orders_to_customers",
    ]
    assert "In: module 'mod_base'" in everything.text
    assert [each["name"] for each in current.structured["relations"]] == ["orders_to_customers"]
    assert wrong.text == "Error: Invalid scope value: 'mine'. Must be one of: current, all"
    assert wrong.is_error


async def test_a_relation_is_deleted_and_what_uses_it_is_named(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(root, "deleteRelation", name="orders_to_customers")
    again = await call(root, "deleteRelation", name="orders_to_customers")
    unnamed = await call(root, "deleteRelation")

    assert said.first == "Relation 'orders_to_customers' deleted successfully."
    assert "shop/forms/orders.js:2: return orders_to_customers.companyname;" in said.text
    assert not (root / "shop/relations/orders_to_customers.rel").exists()
    assert again.text == "Relation 'orders_to_customers' not found."
    assert again.is_error
    assert unnamed.text == "The 'name' argument is required."


async def test_several_are_deleted_together(tmp_path: Path) -> None:
    root = make(tmp_path)
    await call(root, "openRelation", **NEW)

    said = await call(
        root, "deleteRelations", names=["orders_to_employees", "nope", "orders_to_customers"]
    )
    none = await call(root, "deleteRelations", names=["nope"])
    empty = await call(root, "deleteRelations", names=[])

    assert said.first == (
        "Successfully deleted 2 relation(s): orders_to_employees, orders_to_customers\n"
        "Relations not found (1): nope"
    )
    assert not list((root / "shop/relations").iterdir())
    assert none.text == "Relations not found (1): nope"
    assert none.is_error
    assert empty.text == "Error: 'names' parameter is required"


async def test_nothing_elsewhere_is_deleted_without_being_asked(tmp_path: Path) -> None:
    """Facts 2.3: nothing is deleted if one name of the list needs approval."""
    root = make(tmp_path)
    put(root / "mod_base/relations/m.rel", {**RELATION, "name": "m"}, "plain")
    before = files(root)

    said = await call(root, "deleteRelations", names=["orders_to_customers", "m"])

    assert said.text == (
        "To delete this relation, I need to switch to mod_base. Do you want to proceed? "
        '[If yes, I will: setContext({"context": "mod_base"}) then delete]'
    )
    assert not said.is_error
    assert files(root) == before

    await call(root, "setContext", context="mod_base")
    done = await call(root, "deleteRelation", name="m")

    assert done.first == "Relation 'm' deleted successfully."


async def test_in_a_module_s_context_relations_are_created_there(tmp_path: Path) -> None:
    root = make(tmp_path)
    await call(root, "setContext", context="mod_base")

    said = await call(root, "openRelation", **NEW)
    changed = await call(
        root, "openRelation", name="orders_to_customers", properties={"comment": "x"}
    )

    assert said.first == CREATED
    assert (root / "mod_base/relations/orders_to_employees.rel").exists()
    assert changed.text.startswith("To update this relation, I need to switch to shop.")


async def test_all_relations_of_a_name_are_opened(tmp_path: Path) -> None:
    root = make(tmp_path)
    put(root / "mod_base/relations/orders_to_customers.rel", RELATION, "plain")

    said = await call(root, "openRelation", name="orders_to_customers")

    assert said.structured["solution"] == "shop"
    assert [each["solution"] for each in said.structured["others"]] == ["mod_base"]


@pytest.mark.parametrize("dialect", ["plain", "json"])
async def test_a_relation_and_its_file_are_renamed_together(
    tmp_path: Path, dialect: Dialect
) -> None:
    root = make(tmp_path, dialect)
    old = root / "shop/relations/orders_to_customers.rel"
    text = old.read_text()

    said = await call(
        root, "renameRelation", oldName="orders_to_customers", newName="orders_customers"
    )

    new = root / "shop/relations/orders_customers.rel"
    assert said.first == (
        "Relation renamed successfully: 'orders_to_customers' is now 'orders_customers'."
    )
    assert not old.exists()
    assert new.read_text() == text.replace("orders_to_customers", "orders_customers")
    assert {(each["path"], each["line"]) for each in said.structured["references"]} >= {
        ("shop/forms/orders.js", 2)
    }
    assert len(said.structured["references"]) == 3


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("", "b", "Both oldName and newName are required"),
        ("a", "", "Both oldName and newName are required"),
        ("nope", "b", "Relation 'nope' not found."),
        ("orders_to_customers", "a b", "it holds a blank"),
        ("orders_to_customers", "orders_to_customers", "has that name already"),
        ("orders_to_customers", "OTHER", "There is a relation 'other' already"),
        ("orders_to_customers", "M", "There is a relation 'm' already, in the module 'mod_base'"),
    ],
)
async def test_names_that_are_unknown_or_taken_are_refused(
    tmp_path: Path, old: str, new: str, text: str
) -> None:
    root = make(tmp_path)
    put(root / "shop/relations/other.rel", {**RELATION, "name": "other"}, "plain")
    put(root / "mod_base/relations/m.rel", {**RELATION, "name": "m"}, "plain")
    before = files(root)

    said = await call(root, "renameRelation", oldName=old, newName=new)

    assert said.is_error
    assert text in said.text
    assert files(root) == before


async def test_a_name_may_change_in_case_alone(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(
        root, "renameRelation", oldName="orders_to_customers", newName="Orders_to_Customers"
    )

    assert not said.is_error
    assert [each.name for each in (root / "shop/relations").iterdir()] == [
        "Orders_to_Customers.rel"
    ]


async def test_every_key_of_tables_can_be_a_relation(tmp_path: Path) -> None:
    """Each suggestion of the schema holds as it stands."""
    root = make(tmp_path)
    schema = await call(root, "discoverDbRelations", serverName="example_data")

    for number, key in enumerate(schema.structured["potential"]):
        said = await call(
            root,
            "openRelation",
            name=f"r{number}",
            primaryDataSource=f"example_data/{key['table']}",
            foreignDataSource=f"example_data/{key['target']}",
            primaryColumn=key["column"],
            foreignColumn=key["targetColumn"],
        )
        assert said.first.startswith(f"Relation 'r{number}' created successfully"), said.text
    assert len(TABLES) == 5

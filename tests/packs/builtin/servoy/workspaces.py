"""Small workspaces in both dialects, as Servoy lays them out."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from toolgate import Caller
from toolgate.upstream.python_tools.functions import FunctionTool, tools_of
from toolgate.upstream.python_tools.tool_context import ToolContext, ToolServices

Dialect = Literal["plain", "json"]

RELATION = {
    "allowCreationRelatedRecords": True,
    "foreignDataSource": "db:/example_data/customers",
    "items": [
        {
            "foreignColumnName": "customerid",
            "primaryDataProviderID": "customerid",
            "typeid": 23,
            "uuid": "0D8A6B1C-5E53-4A0B-9B39-6C0B6F1E2A11",
        },
        {
            "foreignColumnName": "country",
            "operator": 512,
            "primaryDataProviderID": "shipcountry",
            "typeid": 23,
            "uuid": "A2C4E6F8-1B3D-4C5E-8F70-91A2B3C4D5E6",
        },
    ],
    "joinType": 1,
    "name": "orders_to_customers",
    "primaryDataSource": "db:/example_data/orders",
    "typeid": 22,
    "uuid": "7B1F3C52-9D0E-4E7A-8A55-2F6C1D9E0B47",
}

VALUE_LIST = {
    "addEmptyValue": 1,
    "customValues": "Active\nInactive|0\nPending",
    "name": "order_status",
    "typeid": 34,
    "uuid": "C56A4180-65AA-42EC-A945-5FD21DEC0538",
}

FORM = {
    "dataSource": "db:/example_data/orders",
    "items": [
        {
            "location": "10,10",
            "name": "lbl_title",
            "text": "Orders",
            "typeid": 7,
            "uuid": "11111111-0000-4000-8000-000000000001",
        },
        {
            "items": [
                {
                    "json": {"onActionMethodID": "9E0B", "text": "Save"},
                    "name": "btn_save",
                    "typeName": "bootstrapcomponents-button",
                    "typeid": 47,
                    "uuid": "11111111-0000-4000-8000-000000000003",
                },
                {
                    "json": {"relation": "orders_to_customers"},
                    "typeName": "bootstrapcomponents-table",
                    "typeid": 47,
                    "uuid": "11111111-0000-4000-8000-000000000004",
                    "valuelistID": "C56A4180-65AA-42EC-A945-5FD21DEC0538",
                },
            ],
            "typeid": 46,
            "uuid": "11111111-0000-4000-8000-000000000002",
        },
        {
            "name": "lbl_customer",
            "dataProviderID": "orders_to_customers.companyname",
            "typeid": 7,
            "uuid": "11111111-0000-4000-8000-000000000005",
        },
    ],
    "name": "orders",
    "size": "640,480",
    "typeid": 3,
    "uuid": "11111111-0000-4000-8000-000000000000",
}


def text_in(value: Any, dialect: Dialect) -> str:
    """A value in a dialect, written here once more and differently from the code under test."""
    if dialect == "json":
        separators = (",", ":")
        text = json.dumps(
            value, indent=4, sort_keys=True, separators=separators, ensure_ascii=False
        )
        return text.replace("\\n", "\\\n")
    return _plain(value, outer=True, line=False)


def _plain(value: Any, *, outer: bool, line: bool) -> str:
    if isinstance(value, dict):
        items = value.get("typeid") == 22
        parts = [f"{key}:{_plain(value[key], outer=False, line=items)}" for key in sorted(value)]
        gap = "" if line else "\n"
        body = f",{gap}".join(parts)
        return body if outer else f"{{{gap}{body}{gap}}}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(_plain(each, outer=False, line=line) for each in value) + "\n]"
    return json.dumps(value, ensure_ascii=False).replace("\\n", "\\\n")


def column(name: str, kind: int = 4, length: int = 0, **more: Any) -> dict[str, Any]:
    """A column of a table definition."""
    sized = {"length": length} if length else {}
    common = {"allowNull": True, "creationOrderIndex": 0, "dataType": kind, "name": name}
    return {**common, **sized, **more}


TABLES: Mapping[str, list[dict[str, Any]]] = {
    "customers": [
        column("customerid", 12, 5, flags=1),
        column("companyname", 12, 40),
        column("country", 12, 15),
    ],
    "orders": [
        column("orderid", flags=1),
        column("customerid", 12, 5),
        column("employeeid", foreignType="employees"),
        column("orderdate", 93),
        column("shipcountry", 12, 15),
    ],
    "order_details": [column("orderid", flags=1), column("productid", flags=1)],
    "employees": [column("employeeid", flags=1), column("lastname", 12, 20)],
    "products": [column("productid", flags=1), column("productname", 12, 40)],
}


def make(
    root: Path,
    dialect: Dialect = "plain",
    *,
    modules: tuple[str, ...] = ("mod_base",),
    tables: Mapping[str, list[dict[str, Any]]] | None = TABLES,
) -> Path:
    """A workspace with the solution `shop`, its modules and the tables of `example_data`."""
    solution(root / "shop", dialect, modules=modules)
    put(root / "shop/relations/orders_to_customers.rel", RELATION, dialect)
    put(root / "shop/valuelists/order_status.val", VALUE_LIST, dialect)
    put(root / "shop/forms/orders.frm", FORM, dialect)
    (root / "shop/forms/orders.js").write_text(
        "function show() {\n\treturn orders_to_customers.companyname;\n}\n", encoding="utf-8"
    )
    (root / "shop/globals.js").write_text(
        '/**\n * @properties={typeid:24,uuid:"AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE"}\n */\n'
        "function getCountries() {\n\treturn application.getValueListArray('order_status');\n}\n",
        encoding="utf-8",
    )
    for name in modules:
        solution(root / name, dialect, kind=2)
    if tables is not None:
        folder = root / "resources/datasources/example_data"
        for name, columns in tables.items():
            put(folder / f"{name}.dbi", {"columns": columns, "name": name, "tableType": 0}, dialect)
    return root


def solution(
    folder: Path, dialect: Dialect, *, kind: int = 1, modules: tuple[str, ...] = ()
) -> None:
    """A solution without objects."""
    identity = f"C7858F59-B069-4688-95B6-{abs(hash(folder.name)) % 10**12:012d}"
    root = {
        "fileVersion": 49 if dialect == "plain" else 63,
        "mustAuthenticate": False,
        "name": folder.name,
        "solutionType": kind,
        "typeid": 43,
        "uuid": identity,
    }
    put(folder / "rootmetadata.obj", root, dialect)
    settings = {"firstFormID": FORM["uuid"], "typeid": 43, "uuid": identity}
    if modules:
        settings["modulesNames"] = ",".join(modules)
    put(folder / "solution_settings.obj", settings, dialect)


def put(path: Path, value: Any, dialect: Dialect) -> Path:
    """Write an object where it belongs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text_in(value, dialect).encode())
    return path


def files(root: Path) -> dict[str, bytes]:
    """Every file of a workspace."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _tools() -> dict[str, FunctionTool]:
    from toolgate.packs.builtin.servoy.tools import (
        database,
        forms,
        relations,
        valuelists,
        workspace,
    )

    modules = (relations, valuelists, database, forms, workspace)
    return {each.name: each for module in modules for each in tools_of(module)}


TOOLS = _tools()


class Answer:
    """What a tool said."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.texts = [each["text"] for each in result["content"]]
        self.first = self.texts[0] if self.texts else ""
        self.text = "\n".join(self.texts)
        self.is_error = result["isError"]
        self.structured = result.get("structuredContent", {})


async def call(
    root: Path | str,
    tool: str,
    /,
    *,
    options: Mapping[str, Any] | None = None,
    services: ToolServices | None = None,
    caller: Caller | None = None,
    **arguments: Any,
) -> Answer:
    """Call a tool of the pack for a workspace."""
    settings = {"workspace": str(root), **(options or {})}
    context = ToolContext(
        caller=caller or Caller.local(conversation=str(root)),
        peer=None,
        sink=None,
        services=services or ToolServices(settings=settings),
    )
    return Answer(await TOOLS[tool].call(arguments, context))


def uuids_hidden(text: str) -> str:
    """A text with its UUIDs replaced, since new ones are random."""
    return re.sub(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}", "UUID", text)

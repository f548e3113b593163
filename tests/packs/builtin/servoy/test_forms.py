"""Forms, buttons, labels and styles, to look at."""

from pathlib import Path
from typing import Any

import pytest

from tests.packs.builtin.servoy.workspaces import FORM, Dialect, call, files, make, put
from toolgate import Caller

LESS = """\
/* .hidden { color: red } */
@blue: #00f; // .not-a-class {
.btn-save {
  color: @blue;
  &:hover { color: black; }
  .icon { width: 1em; }
}
.btn-save, .btn-cancel { margin: 0 }
"""


@pytest.mark.parametrize("dialect", ["plain", "json"])
async def test_forms_and_what_is_on_them_are_shown(tmp_path: Path, dialect: Dialect) -> None:
    root = make(tmp_path, dialect)
    child = {"extendsID": FORM["uuid"], "name": "child", "typeid": 3, "uuid": "C"}
    put(root / "mod_base/forms/child.frm", child, dialect)
    before = files(root)

    listed = await call(root, "listForms")
    current = await call(root, "listForms", scope="current")
    shown = await call(root, "getFormProperties", name="orders")
    below = await call(root, "getFormProperties", name="child")
    buttons = await call(root, "listButtons", formName="orders")
    button = await call(root, "getButtonInfo", formName="orders", name="btn_save")
    labels = await call(root, "listLabels", formName="orders")
    label = await call(
        root, "getLabelInfo", formName="orders", name="11111111-0000-4000-8000-000000000005"
    )

    assert listed.text == (
        "Forms in solution 'shop':\n\n1. child (module 'mod_base')\n"
        "2. orders (db:/example_data/orders, main form)"
    )
    assert "child" not in current.text
    assert shown.structured["width"] == 640
    assert shown.structured["isMainForm"]
    assert below.structured["extends"] == "orders"
    assert buttons.text == "Buttons on form 'orders' (1):\n1. btn_save: Save"
    assert button.structured["properties"]["typeName"] == "bootstrapcomponents-button"
    assert labels.text == "Labels on form 'orders' (2):\n1. lbl_title: Orders\n2. lbl_customer"
    assert label.structured["name"] == "lbl_customer"
    assert files(root) == before


async def test_an_opened_form_is_the_current_one_of_its_conversation(tmp_path: Path) -> None:
    root = make(tmp_path)

    none = await call(root, "getCurrentForm")
    opened = await call(root, "openForm", name="orders")
    current = await call(root, "getCurrentForm")
    other = await call(root, "getCurrentForm", caller=Caller.local(conversation="another"))

    assert none.is_error
    assert opened.first == "Form 'orders' opened in editor."
    assert str(root / "shop/forms/orders.frm") in opened.text
    assert current.first == "Current form: orders"
    assert other.is_error


@pytest.mark.parametrize(
    ("tool", "given", "text"),
    [
        ("openForm", {}, "Error: 'name' parameter is required"),
        ("openForm", {"name": "x"}, "Error: Form 'x' not found."),
        (
            "getFormProperties",
            {"name": "Orders"},
            "Error: Form 'Orders' not found.\nDid you mean 'orders'? Names differ by case.",
        ),
        ("listButtons", {}, "Error: 'formName' parameter is required"),
        ("getLabelInfo", {"formName": "orders"}, "Error: 'name' parameter is required"),
        (
            "getButtonInfo",
            {"formName": "orders", "name": "x"},
            "Error: Button 'x' not found on form 'orders'. Available: btn_save.",
        ),
        ("getStyle", {"className": "x"}, "Error: Style 'x' not found."),
        ("getStyle", {}, "Error: 'className' parameter is required"),
    ],
)
async def test_what_is_not_there_is_said(
    tmp_path: Path, tool: str, given: dict[str, Any], text: str
) -> None:
    said = await call(make(tmp_path), tool, **given)

    assert said.text == text
    assert said.is_error


async def test_styles_are_found_in_the_style_sheets(tmp_path: Path) -> None:
    root = make(tmp_path)
    (root / "shop/medias").mkdir()
    (root / "shop/medias/shop.less").write_text(LESS, encoding="utf-8")

    none = await call(root, "listStyles", options={"solution": "mod_base"})
    listed = await call(root, "listStyles")
    shown = await call(root, "getStyle", className=".btn-save")

    assert none.text.endswith("No styles found.")
    assert [each["className"] for each in listed.structured["styles"]] == [
        "btn-cancel",
        "btn-save",
        "icon",
    ]
    assert [each["line"] for each in shown.structured["rules"]] == [3, 8]
    assert shown.text.endswith(".btn-save, .btn-cancel {\nmargin: 0\n}")

"""Tools to view forms, their elements, and styles. They do not change files."""

from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import (
    Answer,
    Text,
    answer,
    refusals_as_answers,
    require_text,
)
from toolgate.packs.builtin.servoy._call_context import ServoyCall, servoy_call
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files.workspace import StoredObject
from toolgate.packs.builtin.servoy.objects.changes import (
    name_suggestion,
    objects_in_scope,
    unreadable_files,
)
from toolgate.packs.builtin.servoy.objects.forms import (
    ElementKind,
    elements_of,
    styles_of,
    summary_of,
)

READS = {"readOnlyHint": True, "openWorldHint": False}

_LONGEST = 200
"""Characters of a value that are shown (chosen: two lines)."""


@tool(name="listForms", annotations=READS)
@refusals_as_answers
def list_forms(context: Context, scope: Text = "all") -> object:
    """List forms with the tables that they show.

    Args:
        scope: "current" for those of the present context alone, "all" for those of the active
            solution and its modules.
    """
    call = servoy_call(context)
    forms = objects_in_scope(call, "form", scope)
    name = call.target.name if scope.strip() == "current" else call.workspace.active.name
    lines = [f"Forms in solution '{name}':", ""]
    described: list[dict[str, Any]] = []
    for stored in sorted(
        (stored for stored in forms if stored.file), key=lambda stored: stored.name
    ):
        form = summary_of(call.workspace, stored)
        marks = [form["dataSource"], "main form" if form["isMainForm"] else ""]
        marks += [call.label_of(stored.solution)] if stored.solution != name else []
        remarks = ", ".join(filter(None, marks))
        described.append(form)
        lines.append(f"{len(described)}. {stored.name}{f' ({remarks})' if remarks else ''}")
    if not described:
        lines.append("No forms found.")
    listed_keys = ("name", "solution", "path", "dataSource", "isMainForm")
    structured = {"forms": [{key: form[key] for key in listed_keys} for form in described]}
    return answer("\n".join(lines), unreadable_files(forms), structured=structured)


@tool(name="openForm", annotations=READS, required=("name",))
@refusals_as_answers
def open_form(context: Context, name: Text = "") -> object:
    """Open a form to look at: its table, size, parent, buttons and labels. Changes nothing.

    Args:
        name: Name of the form.
    """
    require_text("Error: 'name' parameter is required", name)
    call = servoy_call(context)
    form = _form(call, name.strip())
    failed = call.open_editor([form.path])
    call.remember_form(form.name)
    return _properties(call, form, f"Form '{form.name}' opened in editor.", failed)


@tool(name="getCurrentForm", annotations=READS)
@refusals_as_answers
def get_current_form(context: Context) -> object:
    """Show the form that was opened last in this conversation."""
    call = servoy_call(context)
    if not call.last_form:
        return answer("No form was opened in this conversation.", is_error=True)
    form = _form(call, call.last_form)
    return _properties(call, form, f"Current form: {form.name}", "")


@tool(name="getFormProperties", annotations=READS, required=("name",))
@refusals_as_answers
def get_form_properties(context: Context, name: Text = "") -> object:
    """Show all properties of a form.

    Args:
        name: Name of the form.
    """
    require_text("Error: 'name' parameter is required", name)
    call = servoy_call(context)
    form = _form(call, name.strip())
    return _properties(call, form, f"Form: {form.name}", "")


def _form(call: ServoyCall, name: str) -> StoredObject:
    form = call.preferred(call.workspace.find_objects("form", name))
    if form is None:
        raise ToolRefusedError(
            f"Error: Form '{name}' not found.", name_suggestion(call, "form", name)
        )
    return form


def _properties(call: ServoyCall, form: StoredObject, first: str, note: str) -> Answer:
    summary = summary_of(call.workspace, form)
    lines = [f"{form.path} ({call.label_of(form.solution)})"]
    first_keys = ("dataSource", "width", "height", "extends", "isMainForm", "buttons", "labels")
    lines += [
        f"{key}: {_shortened(summary[key])}" for key in first_keys if summary[key] not in {None, ""}
    ]
    properties: dict[str, Any] = summary["properties"]
    lines += [
        f"{key}: {_shortened(value)}" for key, value in properties.items() if key != "dataSource"
    ]
    return answer(first, note, "\n".join(lines), structured=summary)


def _shortened(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@tool(name="listButtons", annotations=READS, required=("formName",))
@refusals_as_answers
def list_buttons(context: Context, formName: Text = "") -> object:
    """List the buttons of a form.

    Args:
        formName: Name of the form.
    """
    return _elements(servoy_call(context), "button", formName)


@tool(name="getButtonInfo", annotations=READS, required=("formName", "name"))
@refusals_as_answers
def get_button_info(context: Context, formName: Text = "", name: Text = "") -> object:
    """Show all properties of a button.

    Args:
        formName: Name of the form.
        name: Name or UUID of the button.
    """
    return _element(servoy_call(context), "button", formName, name)


@tool(name="listLabels", annotations=READS, required=("formName",))
@refusals_as_answers
def list_labels(context: Context, formName: Text = "") -> object:
    """List the labels of a form.

    Args:
        formName: Name of the form.
    """
    return _elements(servoy_call(context), "label", formName)


@tool(name="getLabelInfo", annotations=READS, required=("formName", "name"))
@refusals_as_answers
def get_label_info(context: Context, formName: Text = "", name: Text = "") -> object:
    """Show all properties of a label.

    Args:
        formName: Name of the form.
        name: Name or UUID of the label.
    """
    return _element(servoy_call(context), "label", formName, name)


def _elements(call: ServoyCall, kind: ElementKind, form_name: str) -> Answer:
    require_text("Error: 'formName' parameter is required", form_name)
    form = _form(call, form_name.strip())
    elements = elements_of(form.fields, kind)
    lines = [f"{kind.capitalize()}s on form '{form.name}' ({len(elements)}):"]
    for number, element in enumerate(elements, 1):
        text = f": {_shortened(element.text)}" if element.text else ""
        lines.append(f"{number}. {element.name or element.uuid}{text}")
    return answer(
        "\n".join(lines) if elements else f"No {kind}s found on form '{form.name}'.",
        structured={f"{kind}s": [element.described for element in elements]},
    )


def _element(call: ServoyCall, kind: ElementKind, form_name: str, name: str) -> Answer:
    require_text("Error: 'formName' parameter is required", form_name)
    require_text("Error: 'name' parameter is required", name)
    form = _form(call, form_name.strip())
    element_name = name.strip()
    for element in elements_of(form.fields, kind):
        if element_name in {element.name, element.uuid}:
            described = element.described
            properties: dict[str, Any] = described["properties"]
            lines = [f"{kind.capitalize()}: {element.name or element.uuid}"]
            lines += [f"{key}: {_shortened(value)}" for key, value in properties.items()]
            return answer("\n".join(lines), structured=described)
    names = ", ".join(element.name or element.uuid for element in elements_of(form.fields, kind))
    raise ToolRefusedError(
        f"Error: {kind.capitalize()} '{element_name}' not found on form '{form.name}'. "
        f"Available: {names or 'none'}."
    )


@tool(name="listStyles", annotations=READS)
@refusals_as_answers
def list_styles(context: Context) -> object:
    """List the classes of the style sheets of the active solution and its modules."""
    call = servoy_call(context)
    places: dict[str, list[str]] = {}
    for solution in call.workspace.scope:
        for rule in styles_of(call.workspace, solution):
            for name in rule.classes:
                places.setdefault(name, []).append(f"{rule.path}:{rule.line}")
    lines = [f"Styles in solution '{call.workspace.active.name}':", ""]
    lines += [f"- {name} ({places[name][0]})" for name in sorted(places)]
    if not places:
        lines.append("No styles found.")
    structured = {
        "styles": [{"className": name, "places": places[name]} for name in sorted(places)]
    }
    return answer("\n".join(lines), structured=structured)


@tool(name="getStyle", annotations=READS, required=("className",))
@refusals_as_answers
def get_style(context: Context, className: Text = "") -> object:
    """Show the rules of a class in the style sheets of the active solution and its modules.

    Args:
        className: Name of the class, with or without the dot.
    """
    require_text("Error: 'className' parameter is required", className)
    call = servoy_call(context)
    style = className.strip().removeprefix(".")
    matches = [
        rule
        for solution in call.workspace.scope
        for rule in styles_of(call.workspace, solution)
        if style in rule.classes
    ]
    if not matches:
        raise ToolRefusedError(f"Error: Style '{style}' not found.")
    texts = [
        f"/* {rule.path}:{rule.line} */\n{rule.selector} {{\n{rule.body}\n}}" for rule in matches
    ]
    rules = [
        {"selector": rule.selector, "body": rule.body, "path": rule.path, "line": rule.line}
        for rule in matches
    ]
    return answer("\n\n".join(texts), structured={"rules": rules})

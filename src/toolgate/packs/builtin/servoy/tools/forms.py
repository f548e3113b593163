"""Tools to look at forms, what is on them, and styles. Nothing here changes a file."""

from typing import Any

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import Answer, Text, answer, answering, needed
from toolgate.packs.builtin.servoy._call_context import Desk, desk_of
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._forms import ElementKind, elements_of, styles_of, summary_of
from toolgate.packs.builtin.servoy._objects import broken, meant, scope_of
from toolgate.packs.builtin.servoy._workspace import Stored

READS = {"readOnlyHint": True, "openWorldHint": False}

_LONGEST = 200


@tool(name="listForms", annotations=READS)
@answering
def list_forms(context: Context, scope: Text = "all") -> object:
    """List forms with the tables that they show.

    Args:
        scope: "current" for those of the present context alone, "all" for those of the active
            solution and its modules.
    """
    desk = desk_of(context)
    found = scope_of(desk, "form", scope)
    name = desk.target.name if scope.strip() == "current" else desk.workspace.active.name
    lines = [f"Forms in solution '{name}':", ""]
    described: list[dict[str, Any]] = []
    for each in sorted((each for each in found if each.read), key=lambda each: each.name):
        form = summary_of(desk.workspace, each)
        marks = [form["dataSource"], "main form" if form["isMainForm"] else ""]
        marks += [desk.label_of(each.solution)] if each.solution != name else []
        said = ", ".join(filter(None, marks))
        described.append(form)
        lines.append(f"{len(described)}. {each.name}{f' ({said})' if said else ''}")
    if not described:
        lines.append("No forms found.")
    kept = ("name", "solution", "path", "dataSource", "isMainForm")
    structured = {"forms": [{key: form[key] for key in kept} for form in described]}
    return answer("\n".join(lines), broken(found), structured=structured)


@tool(name="openForm", annotations=READS, required=("name",))
@answering
def open_form(context: Context, name: Text = "") -> object:
    """Open a form to look at: its table, size, parent, buttons and labels. Changes nothing.

    Args:
        name: Name of the form.
    """
    needed("Error: 'name' parameter is required", name)
    desk = desk_of(context)
    form = _form(desk, name.strip())
    failed = desk.open_editor([form.path])
    desk.note_form(form.name)
    return _properties(desk, form, f"Form '{form.name}' opened in editor.", failed)


@tool(name="getCurrentForm", annotations=READS)
@answering
def get_current_form(context: Context) -> object:
    """Show the form that was opened last in this conversation."""
    desk = desk_of(context)
    if not desk.last_form:
        return answer("No form was opened in this conversation.", is_error=True)
    form = _form(desk, desk.last_form)
    return _properties(desk, form, f"Current form: {form.name}", "")


@tool(name="getFormProperties", annotations=READS, required=("name",))
@answering
def get_form_properties(context: Context, name: Text = "") -> object:
    """Show all properties of a form.

    Args:
        name: Name of the form.
    """
    needed("Error: 'name' parameter is required", name)
    desk = desk_of(context)
    form = _form(desk, name.strip())
    return _properties(desk, form, f"Form: {form.name}", "")


def _form(desk: Desk, name: str) -> Stored:
    form = desk.first(desk.workspace.find("form", name))
    if form is None:
        raise RefusedError(f"Error: Form '{name}' not found.", meant(desk, "form", name))
    return form


def _properties(desk: Desk, form: Stored, first: str, note: str) -> Answer:
    summary = summary_of(desk.workspace, form)
    lines = [f"{form.path} ({desk.label_of(form.solution)})"]
    known = ("dataSource", "width", "height", "extends", "isMainForm", "buttons", "labels")
    lines += [f"{key}: {_said(summary[key])}" for key in known if summary[key] not in {None, ""}]
    own: dict[str, Any] = summary["properties"]
    lines += [f"{key}: {_said(value)}" for key, value in own.items() if key != "dataSource"]
    return answer(first, note, "\n".join(lines), structured=summary)


def _said(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@tool(name="listButtons", annotations=READS, required=("formName",))
@answering
def list_buttons(context: Context, formName: Text = "") -> object:
    """List the buttons of a form.

    Args:
        formName: Name of the form.
    """
    return _elements(desk_of(context), "button", formName)


@tool(name="getButtonInfo", annotations=READS, required=("formName", "name"))
@answering
def get_button_info(context: Context, formName: Text = "", name: Text = "") -> object:
    """Show all properties of a button.

    Args:
        formName: Name of the form.
        name: Name or UUID of the button.
    """
    return _element(desk_of(context), "button", formName, name)


@tool(name="listLabels", annotations=READS, required=("formName",))
@answering
def list_labels(context: Context, formName: Text = "") -> object:
    """List the labels of a form.

    Args:
        formName: Name of the form.
    """
    return _elements(desk_of(context), "label", formName)


@tool(name="getLabelInfo", annotations=READS, required=("formName", "name"))
@answering
def get_label_info(context: Context, formName: Text = "", name: Text = "") -> object:
    """Show all properties of a label.

    Args:
        formName: Name of the form.
        name: Name or UUID of the label.
    """
    return _element(desk_of(context), "label", formName, name)


def _elements(desk: Desk, kind: ElementKind, form_name: str) -> Answer:
    needed("Error: 'formName' parameter is required", form_name)
    form = _form(desk, form_name.strip())
    found = elements_of(form.fields, kind)
    lines = [f"{kind.capitalize()}s on form '{form.name}' ({len(found)}):"]
    for number, each in enumerate(found, 1):
        text = f": {_said(each.text)}" if each.text else ""
        lines.append(f"{number}. {each.name or each.uuid}{text}")
    return answer(
        "\n".join(lines) if found else f"No {kind}s found on form '{form.name}'.",
        structured={f"{kind}s": [each.described for each in found]},
    )


def _element(desk: Desk, kind: ElementKind, form_name: str, name: str) -> Answer:
    needed("Error: 'formName' parameter is required", form_name)
    needed("Error: 'name' parameter is required", name)
    form = _form(desk, form_name.strip())
    wanted = name.strip()
    for each in elements_of(form.fields, kind):
        if wanted in {each.name, each.uuid}:
            described = each.described
            own: dict[str, Any] = described["properties"]
            lines = [f"{kind.capitalize()}: {each.name or each.uuid}"]
            lines += [f"{key}: {_said(value)}" for key, value in own.items()]
            return answer("\n".join(lines), structured=described)
    names = ", ".join(each.name or each.uuid for each in elements_of(form.fields, kind))
    raise RefusedError(
        f"Error: {kind.capitalize()} '{wanted}' not found on form '{form.name}'. "
        f"Available: {names or 'none'}."
    )


@tool(name="listStyles", annotations=READS)
@answering
def list_styles(context: Context) -> object:
    """List the classes of the style sheets of the active solution and its modules."""
    desk = desk_of(context)
    places: dict[str, list[str]] = {}
    for solution in desk.workspace.scope:
        for rule in styles_of(desk.workspace, solution):
            for name in rule.classes:
                places.setdefault(name, []).append(f"{rule.path}:{rule.line}")
    lines = [f"Styles in solution '{desk.workspace.active.name}':", ""]
    lines += [f"- {name} ({places[name][0]})" for name in sorted(places)]
    if not places:
        lines.append("No styles found.")
    structured = {
        "styles": [{"className": name, "places": places[name]} for name in sorted(places)]
    }
    return answer("\n".join(lines), structured=structured)


@tool(name="getStyle", annotations=READS, required=("className",))
@answering
def get_style(context: Context, className: Text = "") -> object:
    """Show the rules of a class in the style sheets of the active solution and its modules.

    Args:
        className: Name of the class, with or without the dot.
    """
    needed("Error: 'className' parameter is required", className)
    desk = desk_of(context)
    wanted = className.strip().removeprefix(".")
    found = [
        rule
        for solution in desk.workspace.scope
        for rule in styles_of(desk.workspace, solution)
        if wanted in rule.classes
    ]
    if not found:
        raise RefusedError(f"Error: Style '{wanted}' not found.")
    texts = [
        f"/* {each.path}:{each.line} */\n{each.selector} {{\n{each.body}\n}}" for each in found
    ]
    rules = [
        {"selector": each.selector, "body": each.body, "path": each.path, "line": each.line}
        for each in found
    ]
    return answer("\n\n".join(texts), structured={"rules": rules})

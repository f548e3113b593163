"""`toolgate paths`: show where Toolgate stores its files."""

from toolgate.base.processes.run_file import without_password
from toolgate.cli.serving._background import log_file
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._output import print_json, print_table
from toolgate.errors import SettingError
from toolgate.settings import (
    Settings,
    config_dir,
    data_dir,
    default_store_url,
    find_config,
    load,
    run_dir,
)

app = CommandApp()


@app.command()
def paths(
    as_json: AsJson = False,
) -> None:
    """Show where Toolgate stores its files."""
    options = shared_options()
    config = find_config(options.config)
    try:
        settings = load(options.config, options.imports)
    except SettingError:
        settings = Settings()  # people run this when something is broken
    locations = {
        "config_file": str(config) if config else None,
        "config_folder": str(config_dir()),
        "data_folder": str(data_dir()),
        "run_folder": str(run_dir()),
        "store": without_password(settings.store.url or default_store_url()),
        "log_file": settings.log.file or None,
        "files": [str(path) for path in settings.files],
    }
    if as_json:
        print_json(locations)
        return
    names = {
        "config_file": "Configuration",
        "config_folder": "Configuration folder",
        "data_folder": "Data folder",
        "run_folder": "Run files",
        "store": "Store",
        "log_file": "Log file",
    }
    rows = [(title, str(locations[name] or "none")) for name, title in names.items()]
    if not settings.log.file:
        rows[-1] = ("Log of toolgate start", str(log_file(settings)))
    print_table(("Item", "Location"), rows, wrap=None)

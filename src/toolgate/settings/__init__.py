"""Settings: the only reader of configuration files and of the environment.

`load` reads, `watch` tells of changes, `add_server_to_file` and `remove_server_from_file` write.
Files of other MCP clients are understood as they are.
"""

from toolgate.settings._folders import (
    base_environment,
    child_environment,
    config_dir,
    current_environment,
    data_dir,
    default_store_url,
    expand_home,
    home_dir,
    run_dir,
)
from toolgate.settings._load import CONFIG_NAME, find_config, load, server_spec
from toolgate.settings._model import (
    META_TOOLS,
    AuditSettings,
    DiscoverySettings,
    ImportTable,
    LogLevel,
    LogSettings,
    ResultSettings,
    SearchSettings,
    ServerTable,
    ServeSettings,
    Settings,
    StoreSettings,
    ToolTable,
)
from toolgate.settings._servers import is_toolgate, redact, server_name

__all__ = [
    "CONFIG_NAME",
    "META_TOOLS",
    "AuditSettings",
    "DiscoverySettings",
    "ImportTable",
    "LogLevel",
    "LogSettings",
    "ResultSettings",
    "SearchSettings",
    "ServeSettings",
    "ServerTable",
    "Settings",
    "StoreSettings",
    "ToolTable",
    "base_environment",
    "child_environment",
    "config_dir",
    "current_environment",
    "data_dir",
    "default_store_url",
    "expand_home",
    "find_config",
    "home_dir",
    "is_toolgate",
    "load",
    "redact",
    "run_dir",
    "server_name",
    "server_spec",
]

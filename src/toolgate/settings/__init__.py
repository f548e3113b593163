"""Settings: the only reader of configuration files and of the environment.

`load` reads, `watch` reports changes, `add_server_to_file` and `remove_server_from_file` write.
Configuration files of other MCP clients can be read directly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from toolgate.settings.folders import (
    CONFIG_NAME,
    audit_files,
    audit_key,
    base_environment,
    child_environment,
    config_dir,
    credential_key,
    credential_key_file,
    current_environment,
    data_dir,
    default_store_url,
    expand_home,
    find_config,
    home_dir,
    learned_dir,
    own_credentials,
    proxies,
    read_audit_key,
    run_dir,
)

if TYPE_CHECKING:
    from toolgate.settings.clients.files import (
        project_folder,
        server_tables,
        translate,
    )
    from toolgate.settings.config_file import (
        ConfigDocument,
        KeyPath,
        parse_document,
        read_document,
        read_text,
    )
    from toolgate.settings.current import (
        CurrentSettings,
    )
    from toolgate.settings.described import (
        DescribedSetting,
        described_settings,
    )
    from toolgate.settings.edit import (
        NEW_FILE,
        add_server_to_file,
        change_server_in_file,
        change_tool_in_file,
        migrate_text,
        remove_server_from_file,
        render_table,
        set_import,
        switch_pack,
        tool_in_file,
        with_setting,
        without_table,
        write_text,
    )
    from toolgate.settings.file_watcher import (
        watch,
    )
    from toolgate.settings.loader import (
        guard_table,
        load,
        load_errors,
        server_spec,
        tool_overrides,
    )
    from toolgate.settings.otlp_environment import (
        OtlpVariables,
        otlp_variables,
        service_attributes,
    )
    from toolgate.settings.servers.overrides import (
        OVERRIDE_KEYS,
    )
    from toolgate.settings.servers.own_entry import (
        is_toolgate,
    )
    from toolgate.settings.servers.server_entry import (
        readable_name,
        redact,
        server_name,
    )
    from toolgate.settings.tables.access import (
        ApprovalSettings,
        AuthnSettings,
        CredentialSettings,
        GuardTable,
        LimitSettings,
        PermissionTable,
        ProjectTable,
        ToolLimitTable,
    )
    from toolgate.settings.tables.chat import (
        ChatSettings,
        DocumentModelTable,
        DocumentSettings,
        ModelTable,
    )
    from toolgate.settings.tables.operations import (
        AuditSettings,
        LogLevel,
        LogSettings,
        MetricSettings,
        StoreSettings,
        TraceSettings,
    )
    from toolgate.settings.tables.packs import PackSettings, RuleSettings
    from toolgate.settings.tables.programs import ProgramSettings
    from toolgate.settings.tables.root import META_TOOLS, Settings
    from toolgate.settings.tables.search import (
        CatalogSearchSettings,
        DiscoverySettings,
        ResultSettings,
        SearchSettings,
        UsageSettings,
    )
    from toolgate.settings.tables.servers import (
        ConnectionTable,
        CredentialTable,
        ImportTable,
        ServerTable,
        ToolTable,
        UpstreamTlsTable,
    )
    from toolgate.settings.tables.serving import OutboundSettings, ServeSettings, TlsSettings
    from toolgate.settings.variables import (
        fill_known,
        fill_secrets,
        find_secrets,
    )

__all__ = [
    "CONFIG_NAME",
    "META_TOOLS",
    "NEW_FILE",
    "OVERRIDE_KEYS",
    "ApprovalSettings",
    "AuditSettings",
    "AuthnSettings",
    "CatalogSearchSettings",
    "ChatSettings",
    "ConfigDocument",
    "ConnectionTable",
    "CredentialSettings",
    "CredentialTable",
    "CurrentSettings",
    "DescribedSetting",
    "DiscoverySettings",
    "DocumentModelTable",
    "DocumentSettings",
    "GuardTable",
    "ImportTable",
    "KeyPath",
    "LimitSettings",
    "LogLevel",
    "LogSettings",
    "MetricSettings",
    "ModelTable",
    "OtlpVariables",
    "OutboundSettings",
    "PackSettings",
    "PermissionTable",
    "ProgramSettings",
    "ProjectTable",
    "ResultSettings",
    "RuleSettings",
    "SearchSettings",
    "ServeSettings",
    "ServerTable",
    "Settings",
    "StoreSettings",
    "TlsSettings",
    "ToolLimitTable",
    "ToolTable",
    "TraceSettings",
    "UpstreamTlsTable",
    "UsageSettings",
    "add_server_to_file",
    "audit_files",
    "audit_key",
    "base_environment",
    "change_server_in_file",
    "change_tool_in_file",
    "child_environment",
    "config_dir",
    "credential_key",
    "credential_key_file",
    "current_environment",
    "data_dir",
    "default_store_url",
    "described_settings",
    "expand_home",
    "fill_known",
    "fill_secrets",
    "find_config",
    "find_secrets",
    "guard_table",
    "home_dir",
    "is_toolgate",
    "learned_dir",
    "load",
    "load_errors",
    "migrate_text",
    "otlp_variables",
    "own_credentials",
    "parse_document",
    "project_folder",
    "proxies",
    "read_audit_key",
    "read_document",
    "read_text",
    "readable_name",
    "redact",
    "remove_server_from_file",
    "render_table",
    "run_dir",
    "server_name",
    "server_spec",
    "server_tables",
    "service_attributes",
    "set_import",
    "switch_pack",
    "tool_in_file",
    "tool_overrides",
    "translate",
    "watch",
    "with_setting",
    "without_table",
    "write_text",
]

_ON_USE = {
    "project_folder": "clients.files:project_folder",
    "server_tables": "clients.files:server_tables",
    "translate": "clients.files:translate",
    "ConfigDocument": "config_file:ConfigDocument",
    "KeyPath": "config_file:KeyPath",
    "parse_document": "config_file:parse_document",
    "read_document": "config_file:read_document",
    "read_text": "config_file:read_text",
    "CurrentSettings": "current:CurrentSettings",
    "DescribedSetting": "described:DescribedSetting",
    "described_settings": "described:described_settings",
    "NEW_FILE": "edit:NEW_FILE",
    "add_server_to_file": "edit:add_server_to_file",
    "change_server_in_file": "edit:change_server_in_file",
    "change_tool_in_file": "edit:change_tool_in_file",
    "migrate_text": "edit:migrate_text",
    "remove_server_from_file": "edit:remove_server_from_file",
    "render_table": "edit:render_table",
    "set_import": "edit:set_import",
    "switch_pack": "edit:switch_pack",
    "tool_in_file": "edit:tool_in_file",
    "with_setting": "edit:with_setting",
    "without_table": "edit:without_table",
    "write_text": "edit:write_text",
    "watch": "file_watcher:watch",
    "guard_table": "loader:guard_table",
    "load": "loader:load",
    "load_errors": "loader:load_errors",
    "server_spec": "loader:server_spec",
    "tool_overrides": "loader:tool_overrides",
    "OtlpVariables": "otlp_environment:OtlpVariables",
    "otlp_variables": "otlp_environment:otlp_variables",
    "service_attributes": "otlp_environment:service_attributes",
    "readable_name": "servers.server_entry:readable_name",
    "redact": "servers.server_entry:redact",
    "server_name": "servers.server_entry:server_name",
    "OVERRIDE_KEYS": "servers.overrides:OVERRIDE_KEYS",
    "is_toolgate": "servers.own_entry:is_toolgate",
    "ApprovalSettings": "tables.access:ApprovalSettings",
    "AuditSettings": "tables.operations:AuditSettings",
    "AuthnSettings": "tables.access:AuthnSettings",
    "CatalogSearchSettings": "tables.search:CatalogSearchSettings",
    "ChatSettings": "tables.chat:ChatSettings",
    "ConnectionTable": "tables.servers:ConnectionTable",
    "CredentialSettings": "tables.access:CredentialSettings",
    "CredentialTable": "tables.servers:CredentialTable",
    "DiscoverySettings": "tables.search:DiscoverySettings",
    "DocumentModelTable": "tables.chat:DocumentModelTable",
    "DocumentSettings": "tables.chat:DocumentSettings",
    "GuardTable": "tables.access:GuardTable",
    "ImportTable": "tables.servers:ImportTable",
    "LimitSettings": "tables.access:LimitSettings",
    "LogLevel": "tables.operations:LogLevel",
    "LogSettings": "tables.operations:LogSettings",
    "META_TOOLS": "tables.root:META_TOOLS",
    "MetricSettings": "tables.operations:MetricSettings",
    "ModelTable": "tables.chat:ModelTable",
    "OutboundSettings": "tables.serving:OutboundSettings",
    "PackSettings": "tables.packs:PackSettings",
    "PermissionTable": "tables.access:PermissionTable",
    "ProgramSettings": "tables.programs:ProgramSettings",
    "ProjectTable": "tables.access:ProjectTable",
    "ResultSettings": "tables.search:ResultSettings",
    "RuleSettings": "tables.packs:RuleSettings",
    "SearchSettings": "tables.search:SearchSettings",
    "ServeSettings": "tables.serving:ServeSettings",
    "ServerTable": "tables.servers:ServerTable",
    "Settings": "tables.root:Settings",
    "StoreSettings": "tables.operations:StoreSettings",
    "TlsSettings": "tables.serving:TlsSettings",
    "ToolLimitTable": "tables.access:ToolLimitTable",
    "ToolTable": "tables.servers:ToolTable",
    "TraceSettings": "tables.operations:TraceSettings",
    "UpstreamTlsTable": "tables.servers:UpstreamTlsTable",
    "UsageSettings": "tables.search:UsageSettings",
    "fill_known": "variables:fill_known",
    "fill_secrets": "variables:fill_secrets",
    "find_secrets": "variables:find_secrets",
}
"""Names that are imported on first use: commands that query a running gateway read no settings."""


def __getattr__(name: str) -> object:
    """Import a name that only some processes need, on first use."""
    if name not in _ON_USE:
        raise AttributeError(f"module 'toolgate.settings' has no attribute {name!r}")
    module, _, there = _ON_USE[name].partition(":")
    value: object = getattr(import_module(f"toolgate.settings.{module}"), there)
    globals()[name] = value
    return value

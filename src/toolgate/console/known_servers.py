"""Third-party MCP servers that were tested with Toolgate, as suggestions for a first server."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class KnownServer:
    """A published server."""

    name: str
    """Suggested name."""

    command: str
    """The command line that starts it."""

    description: str
    """What it does."""

    variables: tuple[str, ...] = ()
    """Required environment variables."""


KNOWN_SERVERS = (
    KnownServer(
        name="everything",
        command="npx -y @modelcontextprotocol/server-everything",
        description="A test server with every MCP feature",
    ),
    KnownServer(
        name="filesystem",
        command="npx -y @modelcontextprotocol/server-filesystem .",
        description="Read and write files in a folder",
    ),
    KnownServer(
        name="memory",
        command="npx -y @modelcontextprotocol/server-memory",
        description="A knowledge graph that persists across chats",
    ),
    KnownServer(
        name="sequential-thinking",
        command="npx -y @modelcontextprotocol/server-sequential-thinking",
        description="Step-by-step reasoning",
    ),
    KnownServer(
        name="github",
        command="npx -y @modelcontextprotocol/server-github",
        description="Repositories, issues and pull requests",
        variables=("GITHUB_PERSONAL_ACCESS_TOKEN",),
    ),
    KnownServer(
        name="gitlab",
        command="npx -y @modelcontextprotocol/server-gitlab",
        description="Projects, issues and merge requests",
        variables=("GITLAB_PERSONAL_ACCESS_TOKEN",),
    ),
    KnownServer(
        name="slack",
        command="npx -y @modelcontextprotocol/server-slack",
        description="Channels and messages",
        variables=("SLACK_BOT_TOKEN", "SLACK_TEAM_ID"),
    ),
    KnownServer(
        name="postgres",
        command="npx -y @modelcontextprotocol/server-postgres postgresql://localhost/postgres",
        description="Read-only queries on a PostgreSQL database",
    ),
    KnownServer(
        name="puppeteer",
        command="npx -y @modelcontextprotocol/server-puppeteer",
        description="A browser to navigate and take screenshots",
    ),
    KnownServer(
        name="playwright",
        command="npx -y @playwright/mcp --headless --isolated",
        description="A browser to navigate, click and fill in forms",
    ),
    KnownServer(
        name="chrome-devtools",
        command="npx -y chrome-devtools-mcp --headless",
        description="Debug and profile pages in Chrome",
    ),
    KnownServer(
        name="context7",
        command="npx -y @upstash/context7-mcp",
        description="Up-to-date documentation of libraries",
    ),
    KnownServer(
        name="notion",
        command="npx -y @notionhq/notion-mcp-server",
        description="Pages and databases in Notion",
        variables=("NOTION_TOKEN",),
    ),
    KnownServer(
        name="firecrawl",
        command="npx -y firecrawl-mcp",
        description="Crawl and extract web pages",
        variables=("FIRECRAWL_API_KEY",),
    ),
    KnownServer(
        name="desktop-commander",
        command="npx -y @wonderwhy-er/desktop-commander --no-onboarding",
        description="Terminal, processes and files",
    ),
    KnownServer(
        name="mongodb",
        command="npx -y mongodb-mcp-server",
        description="Collections and queries in MongoDB",
        variables=("MDB_MCP_CONNECTION_STRING",),
    ),
    KnownServer(
        name="kubernetes",
        command="npx -y mcp-server-kubernetes",
        description="Resources and logs of a Kubernetes cluster",
    ),
    KnownServer(
        name="figma",
        command="npx -y figma-developer-mcp --stdio",
        description="Layouts of Figma files",
        variables=("FIGMA_API_KEY",),
    ),
    KnownServer(
        name="exa",
        command="npx -y exa-mcp-server",
        description="Web search by Exa",
        variables=("EXA_API_KEY",),
    ),
    KnownServer(
        name="tavily",
        command="npx -y tavily-mcp",
        description="Web search by Tavily",
        variables=("TAVILY_API_KEY",),
    ),
    KnownServer(
        name="elasticsearch",
        command="npx -y @elastic/mcp-server-elasticsearch",
        description="Indices and queries in Elasticsearch",
        variables=("ES_URL", "ES_API_KEY"),
    ),
    KnownServer(
        name="time", command="uvx mcp-server-time", description="Current time and time zones"
    ),
    KnownServer(
        name="git",
        command="uvx mcp-server-git",
        description="Status, history and commits of a repository",
    ),
    KnownServer(name="fetch", command="uvx mcp-server-fetch", description="Web pages as Markdown"),
    KnownServer(
        name="sqlite",
        command="uvx --with mcp<2 mcp-server-sqlite --db-path data.db",
        description="Query and change a SQLite database",
    ),
    KnownServer(
        name="atlassian",
        command="uvx mcp-atlassian",
        description="Jira issues and Confluence pages",
        variables=(
            "JIRA_URL",
            "JIRA_USERNAME",
            "JIRA_API_TOKEN",
            "CONFLUENCE_URL",
            "CONFLUENCE_USERNAME",
            "CONFLUENCE_API_TOKEN",
        ),
    ),
    KnownServer(
        name="excel",
        command="uvx excel-mcp-server stdio",
        description="Read and write Excel workbooks",
    ),
    KnownServer(
        name="duckduckgo",
        command="uvx duckduckgo-mcp-server",
        description="Web search by DuckDuckGo",
    ),
    KnownServer(name="arxiv", command="uvx arxiv-mcp-server", description="Find and read papers"),
    KnownServer(
        name="clickhouse",
        command="uvx mcp-clickhouse",
        description="Queries on a ClickHouse database",
        variables=("CLICKHOUSE_HOST", "CLICKHOUSE_USER", "CLICKHOUSE_PASSWORD"),
    ),
    KnownServer(
        name="redis",
        command="uvx --from redis-mcp-server redis-mcp-server --url redis://127.0.0.1:6379/0",
        description="Keys and values in Redis",
    ),
    KnownServer(
        name="markitdown", command="uvx markitdown-mcp", description="Convert documents to Markdown"
    ),
    KnownServer(
        name="aws-documentation",
        command="uvx awslabs.aws-documentation-mcp-server",
        description="AWS documentation",
    ),
    KnownServer(
        name="office-word",
        command="uvx --from office-word-mcp-server word_mcp_server",
        description="Read and write Word documents",
    ),
    KnownServer(
        name="motherduck",
        command="uvx mcp-server-motherduck --db-path :memory: --read-write",
        description="Query files and databases with DuckDB",
    ),
    KnownServer(
        name="wikipedia", command="uvx wikipedia-mcp", description="Search and read Wikipedia"
    ),
    KnownServer(
        name="elevenlabs",
        command="uvx elevenlabs-mcp",
        description="Text to speech, and speech to text",
        variables=("ELEVENLABS_API_KEY",),
    ),
)
"""Tested by listing their tools through Toolgate, with npm and PyPI packages of autumn 2026."""


def known_servers(word: str) -> list[KnownServer]:
    """Return those with a word in the name or the description; all if it is empty."""
    word = word.strip().lower()
    return [
        server for server in KNOWN_SERVERS if word in f"{server.name} {server.description}".lower()
    ]

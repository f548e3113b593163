"""What Alembic runs for every command: the migrations, in the given transaction.

Imported by Alembic only. The connection comes from `toolgate.store.engine.schema_version`, which
holds the lock.
"""

from alembic import context

from toolgate.store.engine.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    # SQLite can undo changes of tables; Alembic assumes that it cannot.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()

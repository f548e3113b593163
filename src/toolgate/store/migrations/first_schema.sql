-- The tables of the first released schema, in SQLite and PostgreSQL.
-- Names with a dollar sign are types, see versions/r0025_first.py. Never changed: later schemas are
-- migrations of their own.

CREATE TABLE access_state (
    state_id INTEGER NOT NULL,
    version BIGINT NOT NULL,
    CONSTRAINT pk_access_state PRIMARY KEY (state_id)
);

CREATE TABLE approvals (
    approval_id $text NOT NULL,
    slot $text,
    binding $text NOT NULL,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    who $text NOT NULL,
    client $text NOT NULL,
    conversation $text NOT NULL,
    tool $text NOT NULL,
    digest $text NOT NULL,
    arguments $text NOT NULL,
    arguments_sha256 $text NOT NULL,
    reason $text NOT NULL,
    approver $text NOT NULL,
    state $text NOT NULL,
    created_at $text NOT NULL,
    expires_at $text NOT NULL,
    decided_at $text,
    decided_by $text NOT NULL,
    decided_via $text NOT NULL,
    comment $text NOT NULL,
    edited $text,
    used_at $text,
    step INTEGER NOT NULL,
    record_id $text NOT NULL,
    CONSTRAINT pk_approvals PRIMARY KEY (approval_id),
    CONSTRAINT uq_approvals_slot UNIQUE (slot)
);

CREATE INDEX ix_approvals_created_at_approval_id ON approvals (created_at, approval_id);

CREATE TABLE audit (
    record_id $text NOT NULL,
    at $text NOT NULL,
    action $text NOT NULL,
    phase $text NOT NULL,
    parent_id $text,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    client $text NOT NULL,
    conversation $text NOT NULL,
    request_id $text NOT NULL,
    server $text,
    target $text,
    digest $text,
    query $text,
    status $text NOT NULL,
    duration_ms $double,
    request_bytes BIGINT,
    response_bytes BIGINT,
    arguments_sha256 $text,
    response_sha256 $text,
    detail TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    seq BIGINT,
    chain $text,
    CONSTRAINT pk_audit PRIMARY KEY (record_id)
);

CREATE INDEX ix_audit_action ON audit (action, at, record_id) WHERE action != 'call';

CREATE INDEX ix_audit_at_record_id ON audit (at, record_id);

CREATE INDEX ix_audit_caller_id ON audit (caller_id, at, record_id) WHERE caller_id != 'local';

CREATE INDEX ix_audit_failed ON audit (server, at, record_id) WHERE status NOT IN ('ok', 'input_required');

CREATE INDEX ix_audit_project_id ON audit (project_id, at, record_id) WHERE project_id != 'default';

CREATE UNIQUE INDEX ix_audit_seq ON audit (seq);

CREATE INDEX ix_audit_server ON audit (server, at, record_id) WHERE phase = 'outcome';

CREATE INDEX ix_audit_status ON audit (status, at, record_id) WHERE status != 'ok';

CREATE INDEX ix_audit_target ON audit (target, at, record_id) WHERE phase = 'outcome';

CREATE TABLE audit_anchors (
    seq BIGINT NOT NULL,
    kind $text NOT NULL,
    chain $text NOT NULL,
    at $text NOT NULL,
    key_id $text NOT NULL,
    signature $text NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_audit_anchors PRIMARY KEY (seq, kind)
);

CREATE TABLE audit_state (
    state_id INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    chain $text NOT NULL,
    removed_seq BIGINT NOT NULL,
    removed_chain $text NOT NULL,
    CONSTRAINT pk_audit_state PRIMARY KEY (state_id)
);

CREATE TABLE audit_writers (
    writer_id $text NOT NULL,
    started_at $text NOT NULL,
    seen_at $text NOT NULL,
    CONSTRAINT pk_audit_writers PRIMARY KEY (writer_id)
);

CREATE TABLE credential_keys (
    key_id $text NOT NULL,
    wrapped_by $text NOT NULL,
    wrapped $bytes NOT NULL,
    created_at $text NOT NULL,
    CONSTRAINT pk_credential_keys PRIMARY KEY (key_id)
);

CREATE TABLE credentials (
    project_id $text NOT NULL,
    server $text NOT NULL,
    subject $text NOT NULL,
    kind $text NOT NULL,
    key_id $text NOT NULL,
    sealed $bytes NOT NULL,
    shown TEXT NOT NULL,
    version INTEGER NOT NULL,
    lease_by $text NOT NULL,
    lease_until $text NOT NULL,
    updated_at $text NOT NULL,
    CONSTRAINT pk_credentials PRIMARY KEY (project_id, server, subject, kind)
);

CREATE TABLE detections (
    detection_id $text NOT NULL,
    at $text NOT NULL,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    conversation $text NOT NULL,
    door $text NOT NULL,
    outcome $text NOT NULL,
    stage $text NOT NULL,
    intent $text NOT NULL,
    confidence $double NOT NULL,
    rival $text NOT NULL,
    rival_confidence $double NOT NULL,
    called $text NOT NULL,
    remembered BOOLEAN NOT NULL,
    message $text,
    size_bytes BIGINT NOT NULL,
    CONSTRAINT pk_detections PRIMARY KEY (detection_id)
);

CREATE INDEX ix_detections_at_detection_id ON detections (at, detection_id);

CREATE INDEX ix_detections_project_id_at ON detections (project_id, at);

CREATE TABLE guards (
    guard_id $text NOT NULL,
    settings TEXT NOT NULL,
    created_at $text NOT NULL,
    CONSTRAINT pk_guards PRIMARY KEY (guard_id)
);

CREATE TABLE limit_days (
    day $text NOT NULL,
    name $text NOT NULL,
    calls BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    CONSTRAINT pk_limit_days PRIMARY KEY (day, name)
);

CREATE TABLE limit_minutes (
    name $text NOT NULL,
    remaining $double NOT NULL,
    at $double NOT NULL,
    CONSTRAINT pk_limit_minutes PRIMARY KEY (name)
);

CREATE TABLE limit_slots (
    name $text NOT NULL,
    call_id $text NOT NULL,
    until $double NOT NULL,
    CONSTRAINT pk_limit_slots PRIMARY KEY (name, call_id)
);

CREATE INDEX ix_limit_slots_call_id ON limit_slots (call_id);

CREATE TABLE permissions (
    permission_id $text NOT NULL,
    effect $text NOT NULL,
    who $text NOT NULL,
    kind $text NOT NULL,
    pattern $text NOT NULL,
    hint $text NOT NULL,
    created_at $text NOT NULL,
    CONSTRAINT pk_permissions PRIMARY KEY (permission_id)
);

CREATE INDEX ix_permissions_who ON permissions (who);

CREATE TABLE projects (
    project_id $text NOT NULL,
    created_at $text NOT NULL,
    settings TEXT DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_projects PRIMARY KEY (project_id)
);

CREATE TABLE schema_versions (
    version_id $text NOT NULL,
    project_id $text NOT NULL,
    connection $text NOT NULL,
    number INTEGER NOT NULL,
    digest $text NOT NULL,
    at $text NOT NULL,
    seen_at $text NOT NULL,
    content $bytes NOT NULL,
    changes $bytes NOT NULL,
    size_bytes BIGINT NOT NULL,
    CONSTRAINT pk_schema_versions PRIMARY KEY (version_id),
    CONSTRAINT uq_schema_versions_project_id_connection_number UNIQUE (project_id, connection, number)
);

CREATE TABLE secrets (
    name $text NOT NULL,
    value $bytes NOT NULL,
    created_at $text NOT NULL,
    CONSTRAINT pk_secrets PRIMARY KEY (name)
);

CREATE TABLE seen_entries (
    project_id $text NOT NULL,
    server $text NOT NULL,
    kind $text NOT NULL,
    name $text NOT NULL,
    digest $text NOT NULL,
    definition $bytes NOT NULL,
    accepted_digest $text NOT NULL,
    accepted $bytes NOT NULL,
    state $text NOT NULL,
    findings TEXT NOT NULL,
    seen_at $text NOT NULL,
    decided_at $text NOT NULL,
    decided_by $text NOT NULL,
    CONSTRAINT pk_seen_entries PRIMARY KEY (project_id, server, kind, name)
);

CREATE TABLE sessions (
    session_id $text NOT NULL,
    caller_id $text NOT NULL,
    name $text NOT NULL,
    sealed $bytes NOT NULL,
    created_at $text NOT NULL,
    seen_at $text NOT NULL,
    expires_at $text NOT NULL,
    address $text NOT NULL,
    agent $text NOT NULL,
    CONSTRAINT pk_sessions PRIMARY KEY (session_id)
);

CREATE TABLE tokens (
    token_id $text NOT NULL,
    name $text NOT NULL,
    prefix $text NOT NULL,
    digest $text NOT NULL,
    old_digest $text,
    old_until $text,
    user_name $text NOT NULL,
    details TEXT NOT NULL,
    created_at $text NOT NULL,
    expires_at $text,
    rotated_at $text,
    revoked_at $text,
    last_used_at $text,
    CONSTRAINT pk_tokens PRIMARY KEY (token_id),
    CONSTRAINT uq_tokens_name UNIQUE (name)
);

CREATE TABLE tool_versions (
    version_id $text NOT NULL,
    project_id $text NOT NULL,
    server $text NOT NULL,
    tool $text NOT NULL,
    definition $bytes NOT NULL,
    state $text NOT NULL,
    seen_at $text NOT NULL,
    replaced_at $text NOT NULL,
    size_bytes BIGINT NOT NULL,
    CONSTRAINT pk_tool_versions PRIMARY KEY (version_id)
);

CREATE INDEX ix_tool_versions_project_id_server_tool ON tool_versions (project_id, server, tool);

CREATE INDEX ix_tool_versions_replaced_at_version_id ON tool_versions (replaced_at, version_id);

CREATE TABLE usage_searches (
    search_id $text NOT NULL,
    at $text NOT NULL,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    conversation $text NOT NULL,
    model $text NOT NULL,
    vector $bytes NOT NULL,
    shown TEXT NOT NULL,
    margin $double,
    weak BOOLEAN NOT NULL,
    query $text,
    size_bytes BIGINT NOT NULL,
    CONSTRAINT pk_usage_searches PRIMARY KEY (search_id)
);

CREATE INDEX ix_usage_searches_at_search_id ON usage_searches (at, search_id);

CREATE INDEX ix_usage_searches_project_id_at ON usage_searches (project_id, at);

CREATE TABLE usage_uses (
    use_id $text NOT NULL,
    search_id $text NOT NULL,
    at $text NOT NULL,
    project_id $text NOT NULL,
    tool $text NOT NULL,
    outcome $text NOT NULL,
    CONSTRAINT pk_usage_uses PRIMARY KEY (use_id)
);

CREATE INDEX ix_usage_uses_project_id_at ON usage_uses (project_id, at);

CREATE INDEX ix_usage_uses_search_id ON usage_uses (search_id);

CREATE TABLE vector_models (
    collection_id $text NOT NULL,
    model $text NOT NULL,
    dim INTEGER NOT NULL,
    used_at $text NOT NULL,
    CONSTRAINT pk_vector_models PRIMARY KEY (collection_id)
);

CREATE TABLE vectors (
    collection_id $text NOT NULL,
    key $bytes NOT NULL,
    group_id $text,
    vector $bytes NOT NULL,
    CONSTRAINT pk_vectors PRIMARY KEY (collection_id, key)
);

CREATE INDEX ix_vectors_group_id ON vectors (group_id) WHERE group_id IS NOT NULL;

CREATE TABLE document_collections (
    collection_id $text NOT NULL,
    project_id $text NOT NULL,
    name $text NOT NULL,
    name_key $text NOT NULL,
    alias TEXT NOT NULL,
    description TEXT NOT NULL,
    model $text NOT NULL,
    model_identity $text NOT NULL,
    dim INTEGER NOT NULL,
    metric $text NOT NULL,
    place $text NOT NULL,
    shelf_id $text NOT NULL,
    version BIGINT NOT NULL,
    updated_at $text NOT NULL,
    CONSTRAINT pk_document_collections PRIMARY KEY (collection_id),
    CONSTRAINT uq_document_collections_project_id_name_key UNIQUE (project_id, name_key),
    CONSTRAINT fk_document_collections_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE TABLE programs (
    program_id $text NOT NULL,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    state $text NOT NULL,
    body $bytes NOT NULL,
    created_at $text NOT NULL,
    expires_at $text NOT NULL,
    CONSTRAINT pk_programs PRIMARY KEY (program_id),
    CONSTRAINT fk_programs_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE INDEX ix_programs_expires_at ON programs (expires_at);

CREATE TABLE prompt_versions (
    project_id $text NOT NULL,
    name $text NOT NULL,
    version INTEGER NOT NULL,
    text TEXT,
    changed_at $text NOT NULL,
    changed_by $text NOT NULL,
    CONSTRAINT pk_prompt_versions PRIMARY KEY (project_id, name, version),
    CONSTRAINT fk_prompt_versions_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE TABLE results (
    handle $text NOT NULL,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    body $bytes NOT NULL,
    size_bytes BIGINT NOT NULL,
    expires_at $text NOT NULL,
    CONSTRAINT pk_results PRIMARY KEY (handle),
    CONSTRAINT fk_results_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE INDEX ix_results_expires_at ON results (expires_at);

CREATE TABLE servers (
    server_id $text NOT NULL,
    project_id $text NOT NULL,
    name $text NOT NULL,
    config TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    alias $text,
    CONSTRAINT pk_servers PRIMARY KEY (server_id),
    CONSTRAINT uq_servers_project_id_name UNIQUE (project_id, name),
    CONSTRAINT fk_servers_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE TABLE snapshots (
    project_id $text NOT NULL,
    server $text NOT NULL,
    listing $bytes NOT NULL,
    digest $text NOT NULL,
    listed_at $text NOT NULL,
    seen_at $text NOT NULL,
    CONSTRAINT pk_snapshots PRIMARY KEY (project_id, server),
    CONSTRAINT fk_snapshots_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE TABLE statements (
    statement_id $text NOT NULL,
    at $text NOT NULL,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    conversation $text NOT NULL,
    connection $text NOT NULL,
    dialect $text NOT NULL,
    tool $text NOT NULL,
    statement TEXT NOT NULL,
    outcome $text NOT NULL,
    reason TEXT NOT NULL,
    rows INTEGER,
    elapsed_ms $double,
    size_bytes INTEGER NOT NULL,
    CONSTRAINT pk_statements PRIMARY KEY (statement_id),
    CONSTRAINT fk_statements_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE INDEX ix_statements_at_statement_id ON statements (at, statement_id);

CREATE INDEX ix_statements_project_id_caller_id_at ON statements (project_id, caller_id, at);

CREATE TABLE threads (
    thread_id $text NOT NULL,
    project_id $text NOT NULL,
    caller_id $text NOT NULL,
    name $text NOT NULL,
    settings TEXT NOT NULL,
    state TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    running $text NOT NULL,
    running_until $text NOT NULL,
    created_at $text NOT NULL,
    used_at $text NOT NULL,
    size_bytes BIGINT NOT NULL,
    CONSTRAINT pk_threads PRIMARY KEY (thread_id),
    CONSTRAINT uq_threads_project_id_caller_id_name UNIQUE (project_id, caller_id, name),
    CONSTRAINT fk_threads_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE INDEX ix_threads_used_at_thread_id ON threads (used_at, thread_id);

CREATE TABLE tool_texts (
    project_id $text NOT NULL,
    server $text NOT NULL,
    tool $text NOT NULL,
    text_hash $bytes NOT NULL,
    description $text NOT NULL,
    enriched $text NOT NULL,
    definition_hash $text NOT NULL,
    created_at $text NOT NULL,
    updated_at $text NOT NULL,
    CONSTRAINT pk_tool_texts PRIMARY KEY (project_id, server, tool),
    CONSTRAINT fk_tool_texts_project_id FOREIGN KEY(project_id) REFERENCES projects (project_id) ON DELETE CASCADE
);

CREATE INDEX ix_tool_texts_text_hash ON tool_texts (text_hash);

CREATE TABLE document_failures (
    collection_id $text NOT NULL,
    origin $text NOT NULL,
    source $text NOT NULL,
    reason TEXT NOT NULL,
    failed_at $text NOT NULL,
    CONSTRAINT pk_document_failures PRIMARY KEY (collection_id, origin, source),
    CONSTRAINT fk_document_failures_collection_id FOREIGN KEY(collection_id) REFERENCES document_collections (collection_id) ON DELETE CASCADE
);

CREATE TABLE documents (
    document_id $text NOT NULL,
    collection_id $text NOT NULL,
    origin $text NOT NULL,
    source $text NOT NULL,
    title TEXT NOT NULL,
    media_type $text NOT NULL,
    content_hash $text NOT NULL,
    size_bytes BIGINT NOT NULL,
    passages INTEGER NOT NULL,
    added_at $text NOT NULL,
    CONSTRAINT pk_documents PRIMARY KEY (document_id),
    CONSTRAINT uq_documents_collection_id_origin_source UNIQUE (collection_id, origin, source),
    CONSTRAINT fk_documents_collection_id FOREIGN KEY(collection_id) REFERENCES document_collections (collection_id) ON DELETE CASCADE
);

CREATE TABLE thread_artifacts (
    artifact_id $text NOT NULL,
    thread_id $text NOT NULL,
    turn_id $text NOT NULL,
    body $bytes NOT NULL,
    CONSTRAINT pk_thread_artifacts PRIMARY KEY (artifact_id),
    CONSTRAINT fk_thread_artifacts_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE INDEX ix_thread_artifacts_thread_id_turn_id ON thread_artifacts (thread_id, turn_id);

CREATE TABLE thread_messages (
    thread_id $text NOT NULL,
    number INTEGER NOT NULL,
    turn_id $text NOT NULL,
    role $text NOT NULL,
    body TEXT NOT NULL,
    notes TEXT NOT NULL,
    at $text NOT NULL,
    CONSTRAINT pk_thread_messages PRIMARY KEY (thread_id, number),
    CONSTRAINT fk_thread_messages_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE thread_spending (
    thread_id $text NOT NULL,
    number INTEGER NOT NULL,
    turn_id $text NOT NULL,
    purpose $text NOT NULL,
    model $text NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cost $double NOT NULL,
    is_estimate BOOLEAN NOT NULL,
    at $text NOT NULL,
    CONSTRAINT pk_thread_spending PRIMARY KEY (thread_id, number),
    CONSTRAINT fk_thread_spending_thread_id FOREIGN KEY(thread_id) REFERENCES threads (thread_id) ON DELETE CASCADE
);

CREATE TABLE passages (
    passage_id $row_number NOT NULL,
    collection_id $text NOT NULL,
    document_id $text NOT NULL,
    ordinal INTEGER NOT NULL,
    heading TEXT NOT NULL,
    page INTEGER,
    text TEXT NOT NULL,
    words TEXT NOT NULL,
    length INTEGER NOT NULL,
    CONSTRAINT pk_passages PRIMARY KEY (passage_id),
    CONSTRAINT fk_passages_collection_id FOREIGN KEY(collection_id) REFERENCES document_collections (collection_id) ON DELETE CASCADE,
    CONSTRAINT fk_passages_document_id FOREIGN KEY(document_id) REFERENCES documents (document_id) ON DELETE CASCADE
);

CREATE INDEX ix_passages_collection_id_passage_id ON passages (collection_id, passage_id);

CREATE INDEX ix_passages_document_id ON passages (document_id);

INSERT INTO projects (project_id, created_at) VALUES ('default', '1970-01-01T00:00:00.000Z');

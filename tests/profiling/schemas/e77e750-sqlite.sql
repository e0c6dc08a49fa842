CREATE TABLE profiling_fingerprints (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    machine TEXT NOT NULL,
    facts_sha256 TEXT NOT NULL,
    facts JSON NOT NULL,
    UNIQUE (facts_sha256)
);

CREATE INDEX ix_profiling_fingerprints_machine ON profiling_fingerprints (machine);

CREATE TABLE profiling_schema (
    version INTEGER NOT NULL,
    PRIMARY KEY (version)
);

CREATE TABLE profiling_measurements (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    unit TEXT NOT NULL,
    machine TEXT NOT NULL,
    fingerprint INTEGER NOT NULL,
    campaign TEXT NOT NULL,
    graph TEXT NOT NULL,
    graph_fingerprint TEXT NOT NULL,
    family TEXT NOT NULL,
    graph_features JSON NOT NULL,
    layer TEXT NOT NULL,
    d_in BIGINT NOT NULL,
    d_out BIGINT NOT NULL,
    heads BIGINT NOT NULL,
    threads BIGINT NOT NULL,
    variant TEXT NOT NULL,
    "plan" TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT NOT NULL,
    samples JSON NOT NULL,
    launches JSON NOT NULL,
    preparation JSON NOT NULL,
    prepare_seconds DOUBLE,
    relative_error DOUBLE,
    peak_bytes BIGINT NOT NULL,
    drift DOUBLE,
    protocol INTEGER NOT NULL,
    code_version TEXT NOT NULL,
    measured_at DATETIME NOT NULL,
    device TEXT DEFAULT 'cpu' NOT NULL,
    clocks JSON DEFAULT '[]' NOT NULL,
    UNIQUE (machine, unit),
    FOREIGN KEY(fingerprint) REFERENCES profiling_fingerprints (id)
);

CREATE TABLE profiling_jobs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    campaign TEXT NOT NULL,
    digest TEXT NOT NULL,
    limits JSON NOT NULL,
    retrain BOOLEAN NOT NULL,
    machine TEXT,
    idempotency_key TEXT,
    state TEXT NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    model TEXT,
    error TEXT NOT NULL,
    created DATETIME NOT NULL,
    started DATETIME,
    finished DATETIME,
    UNIQUE (idempotency_key)
);

CREATE INDEX ix_profiling_jobs_state ON profiling_jobs (state);

CREATE TABLE profiling_job_log (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL,
    moment DATETIME NOT NULL,
    line TEXT NOT NULL,
    FOREIGN KEY(job) REFERENCES profiling_jobs (id)
);

CREATE INDEX ix_profiling_job_log_job ON profiling_job_log (job);

CREATE TABLE profiling_job_units (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL,
    is_training BOOLEAN NOT NULL,
    problem JSON,
    variants JSON NOT NULL,
    size INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    token BIGINT NOT NULL,
    owner TEXT NOT NULL,
    machine TEXT NOT NULL,
    lease_expires DATETIME,
    heartbeat DATETIME,
    endings JSON NOT NULL,
    error TEXT NOT NULL,
    claim_key TEXT,
    FOREIGN KEY(job) REFERENCES profiling_jobs (id)
);

CREATE INDEX profiling_job_units_state ON profiling_job_units (job, state);

CREATE INDEX profiling_job_units_claim ON profiling_job_units (claim_key);

CREATE TABLE profiling_migrations (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT profiling_migrations_pkc PRIMARY KEY (version_num)
);

INSERT INTO profiling_migrations VALUES ('0003');

INSERT INTO profiling_schema VALUES (2);

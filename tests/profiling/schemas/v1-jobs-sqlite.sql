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

CREATE TABLE profiling_jobs_schema (
    version INTEGER NOT NULL,
    PRIMARY KEY (version)
);

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
    FOREIGN KEY(job) REFERENCES profiling_jobs (id)
);

CREATE INDEX profiling_job_units_state ON profiling_job_units (job, state);

CREATE TABLE profiling_fingerprints (
    id BIGSERIAL NOT NULL,
    machine TEXT NOT NULL,
    facts_sha256 TEXT NOT NULL,
    facts JSON NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (facts_sha256)
);

CREATE INDEX ix_profiling_fingerprints_machine ON profiling_fingerprints (machine);

CREATE TABLE profiling_schema (
    version SERIAL NOT NULL,
    PRIMARY KEY (version)
);

CREATE TABLE profiling_measurements (
    id BIGSERIAL NOT NULL,
    unit TEXT NOT NULL,
    machine TEXT NOT NULL,
    fingerprint BIGINT NOT NULL,
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
    plan TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT NOT NULL,
    samples JSON NOT NULL,
    launches JSON NOT NULL,
    preparation JSON NOT NULL,
    prepare_seconds DOUBLE PRECISION,
    relative_error DOUBLE PRECISION,
    peak_bytes BIGINT NOT NULL,
    drift DOUBLE PRECISION,
    protocol INTEGER NOT NULL,
    code_version TEXT NOT NULL,
    measured_at TIMESTAMP WITH TIME ZONE NOT NULL,
    device TEXT DEFAULT 'cpu' NOT NULL,
    clocks JSON DEFAULT '[]' NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (machine, unit),
    FOREIGN KEY(fingerprint) REFERENCES profiling_fingerprints (id)
);

CREATE TABLE profiling_jobs (
    id BIGSERIAL NOT NULL,
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
    created TIMESTAMP WITH TIME ZONE NOT NULL,
    started TIMESTAMP WITH TIME ZONE,
    finished TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (id),
    UNIQUE (idempotency_key)
);

CREATE INDEX ix_profiling_jobs_state ON profiling_jobs (state);

CREATE TABLE profiling_job_log (
    id BIGSERIAL NOT NULL,
    job BIGINT NOT NULL,
    moment TIMESTAMP WITH TIME ZONE NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(job) REFERENCES profiling_jobs (id)
);

CREATE INDEX ix_profiling_job_log_job ON profiling_job_log (job);

CREATE TABLE profiling_job_units (
    id BIGSERIAL NOT NULL,
    job BIGINT NOT NULL,
    is_training BOOLEAN NOT NULL,
    problem JSON,
    variants JSON NOT NULL,
    size INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    token BIGINT NOT NULL,
    owner TEXT NOT NULL,
    machine TEXT NOT NULL,
    lease_expires TIMESTAMP WITH TIME ZONE,
    heartbeat TIMESTAMP WITH TIME ZONE,
    endings JSON NOT NULL,
    error TEXT NOT NULL,
    claim_key TEXT,
    PRIMARY KEY (id),
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

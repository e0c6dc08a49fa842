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

CREATE TABLE profiling_jobs_schema (
    version SERIAL NOT NULL,
    PRIMARY KEY (version)
);

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
    PRIMARY KEY (id),
    FOREIGN KEY(job) REFERENCES profiling_jobs (id)
);

CREATE INDEX profiling_job_units_state ON profiling_job_units (job, state);

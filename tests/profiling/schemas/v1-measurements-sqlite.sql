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
    UNIQUE (machine, unit),
    FOREIGN KEY(fingerprint) REFERENCES profiling_fingerprints (id)
);

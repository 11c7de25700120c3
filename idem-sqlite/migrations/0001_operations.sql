-- The ledger. `record` holds everything in the binary form of idem_core::codec; the other columns repeat what finding,
-- listing, sweeping and counting need, so that those never read a record that they do not show.

CREATE TABLE idem_schema (
    version  INTEGER NOT NULL,
    -- Tells this file from every other, so that a connection to the wrong one is found out.
    instance BLOB NOT NULL
) STRICT;

INSERT INTO idem_schema (version, instance) VALUES (0, randomblob(16));

CREATE TABLE idem_operations (
    id             INTEGER PRIMARY KEY,
    tenant         TEXT NOT NULL COLLATE BINARY,
    operation      TEXT NOT NULL COLLATE BINARY,
    key            TEXT NOT NULL COLLATE BINARY,
    -- 0 received, 1 processing, 2 completed, 3 uncertain
    state          INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    -- All times are milliseconds since 1970 in UTC. NULL: does not apply, or never.
    lease_until    INTEGER,
    since          INTEGER,
    response_until INTEGER,
    identity_until INTEGER,
    sweep_at       INTEGER,
    record         BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX idem_operations_by_id ON idem_operations (tenant, operation, key);

CREATE INDEX idem_operations_by_sweep ON idem_operations (sweep_at) WHERE sweep_at IS NOT NULL;

CREATE INDEX idem_operations_unfinished ON idem_operations (tenant, operation, key) WHERE state <> 2;

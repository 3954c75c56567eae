-- The outbox: one row a message, written in the transaction that it is about.

CREATE TABLE IF NOT EXISTS outbox_messages (
    id           uuid        NOT NULL,
    topic        text        COLLATE "C" NOT NULL,
    key          text        COLLATE "C",
    order_key    text        COLLATE "C",
    version      integer     NOT NULL DEFAULT 1,
    payload      json        NOT NULL,
    headers      json,
    status       text        COLLATE "C" NOT NULL DEFAULT 'pending',
    attempts     integer     NOT NULL DEFAULT 0,
    last_error   text,
    -- When the row is due; while it is claimed, when the lease ends.
    available_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    claimed_at   timestamptz,
    claimed_by   text,
    claim_token  uuid,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    sent_at      timestamptz,
    -- When a handler first said that the destination is down; NULL once it is not.
    unavailable_since timestamptz,
    CONSTRAINT outbox_messages_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_messages_status_check
        CHECK (status IN ('pending', 'claimed', 'sent', 'failed', 'discarded')),
    CONSTRAINT outbox_messages_claim_check
        CHECK ((status = 'claimed') = (claim_token IS NOT NULL)),
    CONSTRAINT outbox_messages_attempts_check CHECK (attempts >= 0)
);

-- A key enqueues once.
CREATE UNIQUE INDEX IF NOT EXISTS outbox_messages_key
    ON outbox_messages (key) WHERE key IS NOT NULL;

-- What a claim reads: the due rows of one topic, oldest first.
CREATE INDEX IF NOT EXISTS outbox_messages_due
    ON outbox_messages (topic, available_at, id) WHERE status = 'pending';

-- Expired leases.
CREATE INDEX IF NOT EXISTS outbox_messages_leases
    ON outbox_messages (available_at, id) WHERE status = 'claimed';

-- First-in first-out within an order key.
CREATE INDEX IF NOT EXISTS outbox_messages_order
    ON outbox_messages (order_key, created_at, id)
    WHERE order_key IS NOT NULL AND status IN ('pending', 'claimed', 'failed');

-- Parked rows, for the person on call.
CREATE INDEX IF NOT EXISTS outbox_messages_failed
    ON outbox_messages (topic, id) WHERE status = 'failed';

-- What retention sweeps.
CREATE INDEX IF NOT EXISTS outbox_messages_done
    ON outbox_messages (topic, updated_at) WHERE status IN ('sent', 'discarded');

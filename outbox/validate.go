package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

// errInvalidDatabase marks a database that is reachable but unsuitable, where
// a migration is not the remedy.
var errInvalidDatabase = errors.New("outbox: the database is not set up as it must be")

// validateTimeout bounds each look at the catalogue.
const validateTimeout = 10 * time.Second

// pieces are what the table needs: the columns with their Postgres types, the
// constraints and the indexes. More is fine, so that a schema one release newer
// passes.
var pieces = struct {
	columns     map[string]string
	constraints []string
	indexes     []string
}{
	columns: map[string]string{
		"id": "uuid", "topic": "text", "key": "text", "order_key": "text", "version": "integer",
		"payload": "json", "headers": "json", "status": "text", "attempts": "integer", "last_error": "text",
		"available_at": "timestamp with time zone", "claimed_at": "timestamp with time zone", "claimed_by": "text",
		"claim_token": "uuid", "created_at": "timestamp with time zone", "updated_at": "timestamp with time zone",
		"sent_at": "timestamp with time zone", "unavailable_since": "timestamp with time zone",
	},
	constraints: []string{
		"outbox_messages_pkey", "outbox_messages_status_check",
		"outbox_messages_claim_check", "outbox_messages_attempts_check",
	},
	indexes: []string{
		"outbox_messages_key", "outbox_messages_due", "outbox_messages_leases",
		"outbox_messages_order", "outbox_messages_failed", "outbox_messages_done",
	},
}

// Validate reports whether the database can serve as an outbox. It returns an
// error that matches [ErrNotMigrated] and lists every missing or invalid piece
// of the table, or an error that names the setting to change: on Postgres a
// server_encoding other than UTF8; on SQLite a journal mode other than WAL, no
// busy_timeout, or transactions that do not begin IMMEDIATE. It accepts columns
// and indexes that it does not know.
func (s Store) Validate(ctx context.Context) error {
	sess, err := newSession(s.DB)
	if err != nil {
		return err
	}
	if err := sess.checkSettings(ctx, s.DB); err != nil {
		return err
	}
	missing, err := sess.missingPieces(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(missing) == len(pieces.columns)+len(pieces.constraints)+len(pieces.indexes):
		return fmt.Errorf("%w (the table does not exist)", ErrNotMigrated)
	case len(missing) > 0:
		return fmt.Errorf("%w (missing or invalid: %s)", ErrNotMigrated, strings.Join(missing, ", "))
	}
	return nil
}

// missingPieces lists what the table lacks, sorted.
func (s session) missingPieces(ctx context.Context) ([]string, error) {
	found := map[string]string{}
	err := s.query(ctx, validateTimeout, func(rows *sql.Rows) error {
		var kind, name, detail string
		if err := rows.Scan(&kind, &name, &detail); err != nil {
			return err
		}
		found[kind+" "+name] = detail
		return nil
	}, s.catalogue())
	if err != nil {
		return nil, fmt.Errorf("outbox: read the catalogue: %w", err)
	}
	var missing []string
	for name, pgType := range pieces.columns {
		typ, ok := found["column "+name]
		if !ok {
			missing = append(missing, "column "+name)
		} else if s.postgres && typ != pgType {
			missing = append(missing, fmt.Sprintf("column %s of type %s", name, pgType))
		}
	}
	for _, name := range pieces.constraints {
		if !s.hasConstraint(found, name) {
			missing = append(missing, "constraint "+name)
		}
	}
	for _, name := range pieces.indexes {
		if found["index "+name] != "valid" {
			missing = append(missing, "index "+name)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

func (s session) hasConstraint(found map[string]string, name string) bool {
	if s.postgres {
		return found["constraint "+name] == "valid"
	}
	return strings.Contains(found["table outbox_messages"], name)
}

// catalogue is a query for (kind, name, detail) of every piece.
func (s session) catalogue() string {
	if s.postgres {
		return `SELECT 'column', attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
	WHERE attrelid = to_regclass('outbox_messages') AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'constraint', conname::text, CASE WHEN convalidated THEN 'valid' ELSE 'not valid' END
	FROM pg_constraint WHERE conrelid = to_regclass('outbox_messages')
UNION ALL SELECT 'index', c.relname::text, CASE WHEN i.indisvalid THEN 'valid' ELSE 'not valid' END
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = to_regclass('outbox_messages')`
	}
	return `SELECT 'column', name, type FROM pragma_table_info('outbox_messages')
UNION ALL SELECT type, name, CASE type WHEN 'index' THEN 'valid' ELSE sql END
	FROM sqlite_master WHERE tbl_name = 'outbox_messages' AND type IN ('table', 'index')`
}

// checkSettings returns an error if the database or its connections are set up
// in a way that would lose or corrupt messages.
func (s session) checkSettings(ctx context.Context, db *bun.DB) error {
	if s.postgres {
		var encoding string
		err := s.query(ctx, validateTimeout, func(rows *sql.Rows) error { return rows.Scan(&encoding) },
			"SELECT current_setting('server_encoding')")
		if err != nil && strings.Contains(err.Error(), "client_encoding") {
			// pgdriver refuses to connect to it, with an error of no type.
			return fmt.Errorf("%w: its server_encoding or client_encoding is not UTF8; create the database with ENCODING 'UTF8': %w",
				errInvalidDatabase, err)
		}
		if err != nil {
			return fmt.Errorf("outbox: read server_encoding: %w", err)
		}
		if encoding != "UTF8" {
			return fmt.Errorf("%w: server_encoding is %s, which cannot hold every payload; create the database with ENCODING 'UTF8'",
				errInvalidDatabase, encoding)
		}
		return nil
	}
	return checkSQLiteSettings(ctx, db)
}

const sqliteDSN = "file:app.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"

func checkSQLiteSettings(ctx context.Context, db *bun.DB) error {
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	conn, err := db.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("outbox: connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var mode string
	var busy int
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return fmt.Errorf("outbox: read journal_mode: %w", err)
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&busy); err != nil {
		return fmt.Errorf("outbox: read busy_timeout: %w", err)
	}
	var wrong []string
	if mode != "wal" {
		wrong = append(wrong, fmt.Sprintf("journal_mode is %s, not wal, so readers and writers block each other", mode))
	}
	if busy == 0 {
		wrong = append(wrong, "busy_timeout is 0, so a busy database fails at once")
	}
	if len(wrong) == 0 && db.Stats().MaxOpenConnections != 1 {
		immediate, err := beginsImmediate(ctx, db.DB, conn, busy)
		if err != nil {
			return err
		}
		if !immediate {
			wrong = append(wrong, "transactions do not begin IMMEDIATE, so one that reads before it writes fails when another writes")
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s; open SQLite with a DSN like %q", errInvalidDatabase, strings.Join(wrong, "; "), sqliteDSN)
	}
	return nil
}

// beginsImmediate reports whether a transaction takes the write lock when it
// begins: then another connection cannot take it.
func beginsImmediate(ctx context.Context, db *sql.DB, probe *sql.Conn, busy int) (immediate bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("outbox: begin a transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	// The end of ctx must not leave a connection of the pool without its
	// busy_timeout, or in a transaction.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), validateTimeout)
	defer cancel()
	defer func() {
		_, restoreErr := probe.ExecContext(cleanup, fmt.Sprintf("PRAGMA busy_timeout = %d", busy))
		err = errors.Join(err, restoreErr)
	}()
	if _, err := probe.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return false, fmt.Errorf("outbox: set busy_timeout: %w", err)
	}
	_, beginErr := probe.ExecContext(ctx, "BEGIN IMMEDIATE")
	if beginErr == nil {
		_, err := probe.ExecContext(cleanup, "ROLLBACK")
		return false, err
	}
	if sqliteCode(beginErr) != sqliteBusy {
		return false, fmt.Errorf("outbox: probe the write lock: %w", beginErr)
	}
	return true, nil
}

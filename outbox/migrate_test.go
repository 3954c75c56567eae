package outbox_test

import (
	"context"
	"database/sql"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Migrations and validation, section 3 of the contract.

func TestMigrateIsIdempotent(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"a"})
		for range 3 {
			require.NoError(t, f.store.Migrate(t.Context()))
		}
		require.NoError(t, f.store.Validate(t.Context()))
		require.Equal(t, 1, f.count(t, outbox.StatusPending), "it keeps what is there")

		seen := &queryLog{}
		require.NoError(t, outbox.Store{DB: f.db.WithQueryHook(seen)}.Migrate(t.Context()))
		changes, _ := seen.that(func(query string) bool {
			return strings.Contains(query, "CREATE") || strings.Contains(query, "ALTER") || strings.Contains(query, "LOCK")
		})
		require.Empty(t, changes, "where Validate is content it takes no lock")
		require.Equal(t, 1, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))))
	})
}

func TestProcessesMayMigrateAtOnce(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.exec(t, "DROP TABLE outbox_messages")
		gate := make(chan struct{})
		failures := make(chan error, 8)
		for range 8 {
			store := outbox.Store{DB: f.connect(t, nil)} // the pool of another process
			require.NoError(t, store.DB.PingContext(t.Context()))
			go func() {
				<-gate
				failures <- store.Migrate(t.Context())
			}()
		}
		close(gate)
		for range 8 {
			require.NoError(t, receive(t, failures, "the end of Migrate"))
		}
		require.NoError(t, f.store.Validate(t.Context()))
	})
}

func TestMigrateStopsNoEnqueueBehindALongTransaction(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.exec(t, "DROP INDEX outbox_messages_failed")
		long, err := f.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, outbox.Enqueue(t.Context(), long, plainTopic, order{ID: "long"}))

		migrated := make(chan error, 1)
		go func() { migrated <- f.store.Migrate(t.Context()) }()
		waiting := func() int {
			return f.queryInt(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		}
		eventually(t, func() bool { return waiting() == 1 }, "the migration waits for the long transaction")
		f.enqueue(t, plainTopic, []string{"short"}) // behind the migration, which gives up
		require.Empty(t, migrated, "it tries again")
		require.NoError(t, long.Commit())
		require.NoError(t, receive(t, migrated, "the end of Migrate"))
		require.NoError(t, f.store.Validate(t.Context()))
		require.Equal(t, 2, f.count(t, outbox.StatusPending))
		f.exec(t, "UPDATE outbox_messages SET status = 'sent'")
	})
}

func TestMigrateEndsWithItsContext(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.exec(t, "DROP INDEX outbox_messages_failed")
		unlock, err := f.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = unlock.ExecContext(t.Context(), "LOCK TABLE outbox_messages IN ROW EXCLUSIVE MODE")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		require.Error(t, f.store.Migrate(ctx))
		require.NoError(t, unlock.Rollback())
		require.NoError(t, f.store.Migrate(t.Context()))
	})
}

func TestMigrateSaysWhatItCannotRepair(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.exec(t, "ALTER TABLE outbox_messages DROP COLUMN claimed_by")
		err := f.store.Migrate(t.Context())
		require.Error(t, err)
		require.ErrorContains(t, err, "claimed_by")
		f.exec(t, "ALTER TABLE outbox_messages ADD COLUMN claimed_by text")
		require.NoError(t, f.store.Migrate(t.Context()))
	})
}

func TestMigrationsCanBePrintedAndRunAgain(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		steps, err := outbox.Migrations(f.db.Dialect().Name())
		require.NoError(t, err)
		require.NotEmpty(t, steps)
		require.True(t, slices.IsSortedFunc(steps, func(a, b outbox.Migration) int { return strings.Compare(a.Name, b.Name) }))
		f.exec(t, "DROP TABLE outbox_messages")
		for range 2 {
			for _, step := range steps {
				require.NotContains(t, step.SQL, "?", "no placeholders")
				_, err := f.db.DB.ExecContext(t.Context(), step.SQL) // as another tool would
				require.NoError(t, err, step.Name)
			}
			require.NoError(t, f.store.Validate(t.Context()))
		}
	})
}

func TestMigrationsOfOtherDialectsAreRefused(t *testing.T) {
	for _, name := range []dialect.Name{dialect.MySQL, dialect.MSSQL, dialect.Oracle, dialect.Invalid} {
		_, err := outbox.Migrations(name)
		require.ErrorContains(t, err, "not supported", name)
		require.ErrorContains(t, err, "pgdialect", "the remedy")
	}
}

func TestValidateListsEachMissingPiece(t *testing.T) {
	columns := []string{
		"id", "topic", "key", "order_key", "version", "payload", "headers", "status", "attempts", "last_error",
		"available_at", "claimed_at", "claimed_by", "claim_token", "created_at", "updated_at", "sent_at", "unavailable_since",
	}
	indexes := []string{"key", "due", "leases", "order", "failed", "done"}
	t.Run("columns", func(t *testing.T) {
		onEvery(t, func(t *testing.T, f *fixture) {
			for _, column := range columns {
				f.exec(t, "ALTER TABLE outbox_messages RENAME COLUMN "+column+" TO elsewhere")
				err := f.store.Validate(t.Context())
				require.ErrorIs(t, err, outbox.ErrNotMigrated)
				require.ErrorContains(t, err, "missing or invalid: column "+column+")", "it and nothing else")
				f.exec(t, "ALTER TABLE outbox_messages RENAME COLUMN elsewhere TO "+column)
				require.NoError(t, f.store.Validate(t.Context()))
			}
		})
	})
	t.Run("indexes", func(t *testing.T) {
		onEvery(t, func(t *testing.T, f *fixture) {
			for _, index := range indexes {
				f.exec(t, "DROP INDEX outbox_messages_"+index)
				err := f.store.Validate(t.Context())
				require.ErrorIs(t, err, outbox.ErrNotMigrated)
				require.ErrorContains(t, err, "missing or invalid: index outbox_messages_"+index+")")
				require.NoError(t, f.store.Migrate(t.Context()), "which Migrate repairs")
				require.NoError(t, f.store.Validate(t.Context()))
			}
		})
	})
	t.Run("constraints", func(t *testing.T) {
		onPostgres(t, func(t *testing.T, f *fixture) {
			for _, constraint := range []string{"status_check", "claim_check", "attempts_check", "pkey"} {
				f.exec(t, "ALTER TABLE outbox_messages DROP CONSTRAINT outbox_messages_"+constraint)
				err := f.store.Validate(t.Context())
				require.ErrorIs(t, err, outbox.ErrNotMigrated)
				require.ErrorContains(t, err, "constraint outbox_messages_"+constraint)
			}
			require.ErrorContains(t, f.store.Validate(t.Context()),
				"constraint outbox_messages_attempts_check, constraint outbox_messages_claim_check, constraint outbox_messages_pkey, constraint outbox_messages_status_check")
		})
	})
	t.Run("constraints of SQLite", func(t *testing.T) {
		steps, err := outbox.Migrations(dialect.SQLite)
		require.NoError(t, err)
		for _, constraint := range []string{"status_check", "claim_check", "attempts_check", "pkey"} {
			sqldb, err := sql.Open(sqliteshim.ShimName, "file:"+filepath.Join(t.TempDir(), "outbox.db")+
				"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
			require.NoError(t, err)
			for _, step := range steps {
				_, err := sqldb.Exec(strings.ReplaceAll(step.SQL, "CONSTRAINT outbox_messages_"+constraint, "CONSTRAINT another"))
				require.NoError(t, err)
			}
			err = outbox.Store{DB: bun.NewDB(sqldb, sqlitedialect.New())}.Validate(t.Context())
			require.ErrorIs(t, err, outbox.ErrNotMigrated)
			require.ErrorContains(t, err, "missing or invalid: constraint outbox_messages_"+constraint+")")
			require.NoError(t, sqldb.Close())
		}
	})
	t.Run("all", func(t *testing.T) {
		onEvery(t, func(t *testing.T, f *fixture) {
			f.exec(t, "DROP TABLE outbox_messages")
			err := f.store.Validate(t.Context())
			require.ErrorIs(t, err, outbox.ErrNotMigrated)
			require.ErrorContains(t, err, "the table does not exist")
			require.NotContains(t, err.Error(), "column", "a list of everything helps nobody")
			require.NoError(t, f.store.Migrate(t.Context()))
		})
	})
}

func TestValidateRefusesInvalidPieces(t *testing.T) {
	for _, c := range []struct{ name, spoil, want string }{
		{
			"an index that was not built to its end",
			"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_messages_due'::regclass", "index outbox_messages_due",
		},
		{
			"a constraint that was not checked",
			`ALTER TABLE outbox_messages DROP CONSTRAINT outbox_messages_attempts_check,
				ADD CONSTRAINT outbox_messages_attempts_check CHECK (attempts >= 0) NOT VALID`, "constraint outbox_messages_attempts_check",
		},
		{"a payload that is not kept byte for byte", "ALTER TABLE outbox_messages ALTER payload TYPE jsonb", "column payload of type json"},
		{"times without a zone", "ALTER TABLE outbox_messages ALTER sent_at TYPE timestamp", "column sent_at of type timestamp with time zone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, f *fixture) {
				f.exec(t, c.spoil)
				err := f.store.Validate(t.Context())
				require.ErrorIs(t, err, outbox.ErrNotMigrated)
				require.ErrorContains(t, err, "missing or invalid: "+c.want+")")
				require.ErrorContains(t, f.store.Migrate(t.Context()), c.want, "Migrate does not pretend to have repaired it")
			})
		})
	}
}

func TestSchemaOfANewerReleaseServes(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.exec(t, "ALTER TABLE outbox_messages ADD COLUMN tenant text")
		f.exec(t, "ALTER TABLE outbox_messages ADD COLUMN priority integer NOT NULL DEFAULT 3")
		f.exec(t, "CREATE INDEX outbox_messages_tenant ON outbox_messages (tenant, id)")
		require.NoError(t, f.store.Validate(t.Context()))
		require.NoError(t, f.store.Migrate(t.Context()))
		ids := f.enqueue(t, plainTopic, []string{"a"}, outbox.Key("k"))
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			_, err := outbox.EnqueueAll(ctx, tx, plainTopic, []order{{ID: "b"}, {ID: "c"}})
			return err
		})
		require.Equal(t, 3, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))))
		require.Equal(t, outbox.StatusSent, f.get(t, ids[0]).Status)
		require.Equal(t, 3, f.queryInt(t, "SELECT priority FROM outbox_messages WHERE key = 'k'"))
	})
}

func TestStoreReturnsDatabaseErrors(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		store := outbox.Store{DB: f.connect(t, f.faults)}
		f.faults.onBefore(func(string) error { return io.ErrUnexpectedEOF })
		for _, operation := range []func() error{
			func() error { return store.Migrate(t.Context()) },
			func() error { return store.Validate(t.Context()) },
			func() error { _, err := store.Stats(t.Context()); return err },
			func() error { _, err := store.Sweep(t.Context(), time.Hour); return err },
			func() error { _, err := store.List(t.Context(), outbox.Filter{}); return err },
			func() error { _, err := store.Retry(t.Context(), outbox.Filter{All: true}); return err },
		} {
			err := operation()
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NotErrorIs(t, err, outbox.ErrNotMigrated)
		}
	})
}

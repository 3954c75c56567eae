package database_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/database"
	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/outbox"
)

func TestOpen(t *testing.T) {
	for name, dsn := range map[string]func(t *testing.T) string{
		"postgres":   func(t *testing.T) string { return pgtest.Open(t, pgtest.Options{}) },
		"sqlite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "orders.db") },
		"odd letter": func(t *testing.T) string { return filepath.Join(t.TempDir(), "a b#c?d%e&.db") },
	} {
		t.Run(name, func(t *testing.T) {
			dsn := dsn(t)
			db, err := database.Open(dsn)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			store := outbox.Store{DB: db}
			require.NoError(t, store.Migrate(t.Context()))
			require.NoError(t, store.Validate(t.Context()))
			if !database.IsPostgres(dsn) {
				_, err := os.Stat(dsn)
				require.NoError(t, err)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                                     "give a postgres:// URL or the path of an SQLite file",
		"postgres://u@127.0.0.1/db?sslmode=no": "write it as postgres://",
	} {
		_, err := database.Open(dsn)
		require.ErrorContains(t, err, want)
	}
}

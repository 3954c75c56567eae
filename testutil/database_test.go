package testutil_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

func TestPostgres(t *testing.T) {
	for range 5 {
		t.Run("", func(t *testing.T) {
			db := testutil.Postgres(t)
			require.NoError(t, outbox.Store{DB: db}.Validate(t.Context()))
		})
	}
}

func TestSQLite(t *testing.T) {
	for range 5 {
		t.Run("", func(t *testing.T) {
			db := testutil.SQLite(t)
			require.NoError(t, outbox.Store{DB: db}.Validate(t.Context()))
		})
	}
}

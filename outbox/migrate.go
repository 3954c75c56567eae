package outbox

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one step of the schema, for those who use another migration
// tool than [Store.Migrate]. Each may be run again without harm.
type Migration struct {
	Name string // sorts in the order of execution
	SQL  string // several statements, without placeholders
}

// Migrations returns the steps for a dialect, oldest first. It returns an error
// for a dialect other than dialect.PG and dialect.SQLite.
func Migrations(d dialect.Name) ([]Migration, error) {
	sqlD, err := dialectOf(d)
	if err != nil {
		return nil, err
	}
	prefix := "sqlite_"
	if sqlD.postgres {
		prefix = "postgres_"
	}
	files, err := fs.Glob(migrationFiles, "migrations/"+prefix+"*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []Migration
	for _, file := range files {
		text, err := migrationFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path.Base(file), prefix), ".sql")
		out = append(out, Migration{Name: name, SQL: string(text)})
	}
	return out, nil
}

const (
	// migrationLock is the key of the advisory lock that keeps two processes
	// from migrating at once: the bytes of "outbox_m".
	migrationLock = 0x6f7574626f785f6d

	// migrationPatience bounds how long Migrate goes on trying to get its
	// locks when ctx has no deadline.
	migrationPatience = time.Minute
)

// Migrate creates the table outbox_messages, or brings it up to date. It does
// nothing, and takes no lock, where Validate is content, and refuses a database
// whose settings Validate refuses. Processes may run it at
// the same time. On Postgres it waits at most one second for a lock, since a
// statement that queues behind a long transaction stops every Enqueue, and
// tries again for as long as ctx allows, at most a minute.
func (s Store) Migrate(ctx context.Context) error {
	sess, err := newSession(s.DB)
	if err != nil {
		return err
	}
	if err := sess.checkSettings(ctx, s.DB); err != nil {
		return err
	}
	if missing, err := sess.missingPieces(ctx); err != nil || len(missing) == 0 {
		return err
	}
	steps, err := Migrations(s.DB.Dialect().Name())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, migrationPatience)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := s.DB.RunInTx(ctx, &sql.TxOptions{Isolation: migrationIsolation(sess)}, func(ctx context.Context, tx bun.Tx) error {
			return runMigrations(ctx, tx, sess, steps)
		})
		if err == nil {
			return sess.checkMigrated(ctx)
		}
		if !lockUnavailable(err) {
			return fmt.Errorf("outbox: migrate: %w", err)
		}
		if waitErr := sleep(ctx, pause); waitErr != nil {
			return fmt.Errorf("outbox: migrate: other transactions hold the locks that it needs; end them or try later: %w", errors.Join(waitErr, err))
		}
	}
}

// checkMigrated returns an error if there is something that migrations do not
// repair, since they only create what is not there.
func (s session) checkMigrated(ctx context.Context) error {
	missing, err := s.missingPieces(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("outbox: migrate: missing or invalid still: %s; drop an invalid index and migrate again, and repair the rest by hand",
		strings.Join(missing, ", "))
}

func migrationIsolation(s session) sql.IsolationLevel {
	if s.postgres {
		return sql.LevelReadCommitted
	}
	return sql.LevelDefault
}

func runMigrations(ctx context.Context, tx bun.Tx, sess session, steps []Migration) error {
	if sess.postgres {
		setup := fmt.Sprintf("SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock(%d)", migrationLock)
		if _, err := tx.ExecContext(ctx, setup); err != nil {
			return err
		}
	}
	for _, step := range steps {
		if _, err := tx.ExecContext(ctx, step.SQL); err != nil {
			return fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	return nil
}

// lockUnavailable reports whether err says that a lock was not to be had in
// time, or a collision with another process that migrates: two CREATE TABLE IF
// NOT EXISTS can collide in the catalogue.
func lockUnavailable(err error) bool {
	switch sqlState(err) {
	case "55P03", "40P01", "40001":
		return true
	case "":
		code := sqliteCode(err)
		return code == sqliteBusy || code == sqliteLocked
	}
	return false
}

// sleep waits for d, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

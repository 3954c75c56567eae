package outbox

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

const (
	// maxListenPause caps the wait before LISTEN is tried again.
	maxListenPause = 30 * time.Second

	// minListenPool is the smallest pool of which pgx may take a connection
	// for LISTEN: one for renewals, one for claims, and some for the
	// application.
	minListenPool = 4
)

// errCannotListen says that LISTEN is not to be had here; polling remains.
var errCannotListen = errors.New("this driver or pool does not support LISTEN")

// listenLoop wakes the relay when another process has committed messages, until
// ctx ends. It is only about latency: while there is no LISTEN connection, the
// relay looks every Interval all the same.
func (e *engine) listenLoop(ctx context.Context) {
	if !e.session.postgres {
		return
	}
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, maxListenPause) {
		begun := time.Now()
		err := e.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errCannotListen) {
			e.log.Info("outbox: no LISTEN; the relay looks every Interval", "interval", e.interval)
			return
		}
		if time.Since(begun) > maxListenPause {
			wait = time.Second
		}
		e.log.Debug("outbox: the LISTEN connection ended; it will be opened again", "error", err, "in", wait)
		if sleep(ctx, jitter(wait)) != nil {
			return
		}
	}
}

// listen holds one LISTEN connection until it breaks or ctx ends.
func (e *engine) listen(ctx context.Context) error {
	if e.session.oneTrip {
		return e.listenPgdriver(ctx)
	}
	return e.listenPgx(ctx)
}

// listenPgdriver opens a connection outside of the pool.
func (e *engine) listenPgdriver(ctx context.Context) error {
	ln := pgdriver.NewListener(e.db)
	unhook := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer func() {
		if unhook() {
			_ = ln.Close()
		}
	}()
	dial, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if err := ln.Listen(dial, wakeChannel); err != nil {
		return err
	}
	nudge(e.wake) // what was committed before nobody has told us
	for {
		if _, _, err := ln.ReceiveTimeout(ctx, 0); err != nil {
			return err
		}
		nudge(e.wake)
	}
}

// listenPgx takes a connection of the pool and gives it back to nobody. pgx is
// asked for by the names of its methods, so that it is no dependency.
func (e *engine) listenPgx(ctx context.Context) error {
	if pool := e.db.Stats().MaxOpenConnections; pool > 0 && pool < minListenPool {
		return errCannotListen
	}
	conn, err := e.db.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(driverConn any) error {
		wait, err := pgxWaiter(driverConn)
		if err != nil {
			return err
		}
		execer, ok := driverConn.(driver.ExecerContext)
		if !ok {
			return errCannotListen
		}
		if _, err := execer.ExecContext(ctx, "LISTEN "+wakeChannel, nil); err != nil {
			return err
		}
		nudge(e.wake)
		for {
			if err := wait(ctx); err != nil {
				return errors.Join(driver.ErrBadConn, err) // no LISTEN may stay behind in the pool
			}
			nudge(e.wake)
		}
	})
}

// pgxWaiter returns (*pgx.Conn).WaitForNotification of a connection of
// pgx/stdlib.
func pgxWaiter(driverConn any) (func(context.Context) error, error) {
	inner := reflect.ValueOf(driverConn).MethodByName("Conn")
	if !inner.IsValid() || inner.Type().NumIn() != 0 || inner.Type().NumOut() != 1 {
		return nil, errCannotListen
	}
	wait := inner.Call(nil)[0].MethodByName("WaitForNotification")
	if !wait.IsValid() {
		return nil, errCannotListen
	}
	f := wait.Type()
	if f.NumIn() != 1 || f.In(0) != reflect.TypeFor[context.Context]() || f.NumOut() != 2 {
		return nil, errCannotListen
	}
	return func(ctx context.Context) error {
		switch err := wait.Call([]reflect.Value{reflect.ValueOf(ctx)})[1].Interface().(type) {
		case nil:
			return nil
		case error:
			return err
		default:
			return fmt.Errorf("%w: WaitForNotification returned %T", errCannotListen, err)
		}
	}, nil
}

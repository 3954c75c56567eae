package outbox_test

import (
	"context"
	"database/sql/driver"
	"sync"
)

// faults stand between database/sql and a real driver. A test sets what happens
// to a statement before it is sent and after it was answered; the statement
// itself runs on the real database.
type faults struct {
	mu      sync.Mutex
	connect func() error
	stall   func(ctx context.Context, query string) error // before it is sent; may wait for ctx
	before  func(query string) error
	after   func(query string) error // the answer is lost, the effect is not

	// committed is after of a COMMIT, by the last statement before it.
	committed func(last string) error
}

func (f *faults) onConnect(fn func() error)            { f.set(func() { f.connect = fn }) }
func (f *faults) onBefore(fn func(query string) error) { f.set(func() { f.before = fn }) }
func (f *faults) onStall(fn func(ctx context.Context, query string) error) {
	f.set(func() { f.stall = fn })
}
func (f *faults) onAfter(fn func(query string) error) { f.set(func() { f.after = fn }) }
func (f *faults) onCommitted(fn func(last string) error) {
	f.set(func() { f.committed = fn })
}

func (f *faults) clear() {
	f.set(func() { f.connect, f.stall, f.before, f.after, f.committed = nil, nil, nil, nil, nil })
}

func (f *faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faults) get() (connect func() error, before, after func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.connect, f.before, f.after
}

// waits holds a statement back for as long as the test wants it to.
func (f *faults) waits(ctx context.Context, query string) error {
	f.mu.Lock()
	stall := f.stall
	f.mu.Unlock()
	if stall == nil {
		return nil
	}
	return stall(ctx, query)
}

type bypassKey struct{}

// bypass returns a context whose statements no fault touches.
func bypass(ctx context.Context) context.Context {
	return context.WithValue(ctx, bypassKey{}, true)
}

type faultyConnector struct {
	driver.Connector
	faults *faults
}

func (c *faultyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if connect, _, _ := c.faults.get(); connect != nil && ctx.Value(bypassKey{}) == nil {
		if err := connect(); err != nil {
			return nil, err
		}
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{realConn: conn.(realConn), faults: c.faults}, nil
}

// realConn is what the drivers of this suite have in common.
type realConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type faultyConn struct {
	realConn
	faults *faults
	broken bool
	last   string // statement
}

// around runs a statement between the faults. After one, the connection counts
// as broken, as after a real failure of the network.
func (c *faultyConn) around(ctx context.Context, query string, run func() error) error {
	if c.broken {
		return driver.ErrBadConn
	}
	_, before, after := c.faults.get()
	if ctx.Value(bypassKey{}) != nil {
		return run()
	}
	if query != "COMMIT" {
		c.last = query
	}
	if err := c.faults.waits(ctx, query); err != nil {
		c.broken = true
		return err
	}
	if before != nil {
		if err := before(query); err != nil {
			c.broken = true
			return err
		}
	}
	if err := run(); err != nil {
		return err
	}
	if after != nil {
		if err := after(query); err != nil {
			c.broken = true
			return err
		}
	}
	return nil
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	err = c.around(ctx, query, func() error {
		res, err = c.realConn.ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	var rows driver.Rows
	err := c.around(ctx, query, func() (err error) {
		rows, err = c.realConn.QueryContext(ctx, query, args)
		return err
	})
	if err != nil && rows != nil {
		_ = rows.Close() // the answer is lost, but the statement has run to its end
	}
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.around(ctx, "BEGIN", func() error {
		tx, err = c.realConn.BeginTx(ctx, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultyTx{Tx: tx, conn: c, ctx: ctx}, nil
}

type faultyTx struct {
	driver.Tx
	conn *faultyConn
	ctx  context.Context
}

func (t *faultyTx) Commit() error {
	if err := t.conn.around(t.ctx, "COMMIT", t.Tx.Commit); err != nil {
		return err
	}
	t.conn.faults.mu.Lock()
	committed := t.conn.faults.committed
	t.conn.faults.mu.Unlock()
	if committed == nil || t.ctx.Value(bypassKey{}) != nil {
		return nil
	}
	err := committed(t.conn.last)
	t.conn.broken = err != nil
	return err
}

func (c *faultyConn) IsValid() bool {
	v, ok := c.realConn.(driver.Validator)
	return !c.broken && (!ok || v.IsValid())
}

func (c *faultyConn) ResetSession(ctx context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	if r, ok := c.realConn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// CheckNamedValue leaves arguments to the real driver.
func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.realConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

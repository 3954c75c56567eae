package escape

import (
	"context"
	"sync"
	"time"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"
)

type Made struct{}

var MadeTopic = topics.New[Made]("made", nil)

var global bun.Tx

type repo struct {
	tx  bun.Tx
	db  bun.IDB
	all []bun.Tx
}

func use(tx bun.Tx) error { return nil }

func (r *repo) goroutines(ctx context.Context, db *bun.DB) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		go func() { // want `this goroutine uses tx, which may have ended by then, and runs one statement at a time; do it before the function returns, or begin a transaction there`
			_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
		}()
		go use(tx)                         // want `this goroutine uses tx`
		go func(tx bun.Tx) { use(tx) }(tx) // want `this goroutine uses tx`

		var g errgroup.Group
		g.Go(func() error { return use(tx) })    // want `what g.Go runs uses tx`
		g.TryGo(func() error { return use(tx) }) // want `what g.TryGo runs uses tx`
		var wg sync.WaitGroup
		wg.Go(func() { _ = use(tx) })                              // want `what wg.Go runs uses tx`
		time.AfterFunc(time.Second, func() { _ = use(tx) })        // want `what time.AfterFunc runs uses tx`
		context.AfterFunc(ctx, func() { go func() { use(tx) }() }) // want `what context.AfterFunc runs uses tx`
		func() {
			go use(tx) // want `this goroutine uses tx`
		}()
		return g.Wait()
	})
}

func given(tx bun.Tx) {
	go use(tx) // want `this goroutine uses tx`
}

func owned(db *bun.DB, tx bun.Tx) {
	go use(tx)
	_ = tx.Commit()
	own, _ := db.Begin()
	go use(own)
}

func fine(ctx context.Context, db *bun.DB) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		id := 1
		go func() {
			_ = db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return use(tx) })
			println(id)
		}()
		local := repo{tx: tx, db: tx}
		local.all = append(local.all, tx)
		more := map[int]bun.Tx{}
		more[0] = tx

		//outbox:allow outboxescape the function waits for it
		go use(tx)
		return use(local.tx)
	})
}

func (r *repo) kept(ctx context.Context, db bun.IDB, txs chan bun.Tx, m map[string]bun.Tx, all chan []bun.IDB) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		r.tx = tx                  // want `r.tx keeps tx, which ends when this function returns; pass the transaction to who needs it, and keep what it is for`
		r.all = append(r.all, tx)  // want `r.all keeps tx`
		m["a"] = tx                // want `m\["a"\] keeps tx`
		global = tx                // want `global keeps tx`
		txs <- tx                  // want `txs keeps tx`
		all <- []bun.IDB{nil, &tx} // want `all keeps tx`
		*r = repo{db: tx}          // want `\*r keeps tx`
		db = tx
		return nil
	})
}

func (r *repo) unitOfWork(ctx context.Context, db bun.IDB, f func() error) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		r.tx = tx
		defer func() { r.tx = bun.Tx{} }()
		return f()
	})
}

// with returns what its caller, who knows the transaction, does with it.
func (r repo) with(tx bun.Tx) repo {
	r.tx = tx
	return r
}

func (r *repo) named(ctx context.Context, tx bun.Tx) error {
	r.tx = tx // want `r.tx keeps tx`
	return nil
}

func byName(ctx context.Context, db *bun.DB, r *repo) error { return db.RunInTx(ctx, nil, r.named) }

package outer

import (
	"context"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
	"github.com/uptrace/bun"
)

type Made struct{}

var MadeTopic = topics.New[Made]("made", nil)

var global *bun.DB

type Service struct {
	DB    *bun.DB
	Reads struct{ DB bun.IDB }
	tx    bun.Tx
	unit  struct{ bun.IDB } // which may be anything
}

func find(ctx context.Context, db bun.IDB) error             { return nil }
func audit(ctx context.Context, tx bun.Tx, db bun.IDB) error { return nil }
func connect(db *bun.DB) error                               { return nil }
func inTx(db bun.IDB, f func(tx bun.Tx)) error               { return nil }
func later(f func() error)                                   {}
func (s *Service) database() *bun.DB                         { return s.DB }
func (s *Service) with(tx bun.Tx) *Service                   { return s }

func (s *Service) Place(ctx context.Context, db bun.IDB) error {
	return s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_ = s.DB.NewSelect().Model(nil).Where("x").Scan(ctx)            // want `s.DB is not in the transaction: what it does stays after a rollback, and it may wait for ever for what the transaction holds; use tx`
		_, _ = s.Reads.DB.NewInsert().Exec(ctx)                         // want `s.Reads.DB is not in the transaction`
		_, _ = db.ExecContext(ctx, "x")                                 // want `db is not in the transaction`
		_, _ = global.Begin()                                           // want `global is not in the transaction`
		_, _ = s.DB.DB.ExecContext(ctx, "x")                            // want `s.DB.DB is not in the transaction`
		if n, err := s.DB.NewSelect().Count(ctx); err != nil || n > 0 { // want `s.DB is not in the transaction`
			return err
		}
		_ = s.DB.RunInTx(ctx, nil, nil) // want `s.DB is not in the transaction`
		_ = find(ctx, db)               // want `db is not in the transaction`
		_ = find(ctx, s.DB)             // want `s.DB is not in the transaction`

		q := s.DB.NewSelect().Model(nil) // want `s.DB is not in the transaction`
		q = q.Where("x")
		_ = q.Scan(ctx)
		r := db.NewSelect() // want `db is not in the transaction`
		_ = r.Where("x").Scan(ctx)

		func() {
			_, _ = db.ExecContext(ctx, "x") // want `db is not in the transaction`
		}()
		_ = func(ctx context.Context, tx bun.Tx) error {
			return find(ctx, db) // want `db is not in the transaction`
		}(ctx, tx)
		defer func() {
			_, _ = db.ExecContext(ctx, "x") // want `db is not in the transaction`
		}()
		return outbox.Enqueue(ctx, tx, MadeTopic, Made{})
	})
}

func (s *Service) Fine(ctx context.Context, db bun.IDB) error {
	if err := db.NewSelect().Scan(ctx); err != nil {
		return err
	}
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_ = tx.NewSelect().Scan(ctx)
		_ = tx.NewSelect().TableExpr("(?)", db.NewSelect().Where("x")).Scan(ctx)
		sub := db.NewSelect().Where("x")
		_ = tx.NewSelect().TableExpr("(?)", sub).Scan(ctx)
		_ = db.NewSelect().Conn(tx).Scan(ctx)
		told := db.NewSelect()
		_ = told.Conn(tx).Scan(ctx)
		_ = s.DB.Dialect()
		_ = find(ctx, tx)
		_ = find(ctx, s.unit)
		_ = audit(ctx, tx, db)
		_ = connect(s.DB)
		_ = s.database().NewSelect().Scan(ctx)

		var inner bun.IDB = tx
		_ = inner.NewSelect().Scan(ctx)
		repo := s.with(tx)
		_ = repo.DB.NewSelect().Scan(ctx)

		go func() { _ = db.NewSelect().Scan(ctx) }()
		later(func() error { return db.NewSelect().Scan(ctx) })
		after := func() error { return db.NewSelect().Scan(ctx) }
		later(after)

		//outbox:allow outboxtx the sequence of numbers is not to roll back
		_, _ = db.ExecContext(ctx, "x")
		return nil
	})
}

// Set has a variable that becomes the transaction.
func (s *Service) Set(ctx context.Context, db bun.IDB) error {
	return s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		db = tx
		s.Reads.DB = tx
		_ = s.Reads.DB.NewSelect().Scan(ctx)
		return find(ctx, db)
	})
}

// place is a transaction, since it is passed by its name.
func (s *Service) place(ctx context.Context, tx bun.Tx) error {
	return s.DB.NewSelect().Scan(ctx) // want `s.DB is not in the transaction`
}

// unknown is called like any other function.
func (s *Service) unknown(ctx context.Context, tx bun.Tx) error {
	return s.DB.NewSelect().Scan(ctx)
}

func free(ctx context.Context, _ bun.Tx) error {
	return global.NewSelect().Scan(ctx) // want `global is not in the transaction.*; give the parameter of type bun.Tx a name, and use it`
}

func unnamed(context.Context, bun.Tx) error {
	return global.NewSelect().Scan(context.Background()) // want `give the parameter of type bun.Tx a name, and use it`
}

func byName(ctx context.Context, s *Service) {
	_ = s.DB.RunInTx(ctx, nil, s.place)
	_ = s.DB.RunInTx(ctx, nil, free)
	_ = s.DB.RunInTx(ctx, nil, unnamed)
	_ = s.unknown(ctx, bun.Tx{})
	_ = inTx(s.DB, func(tx bun.Tx) {
		_ = s.DB.NewSelect().Scan(ctx) // want `s.DB is not in the transaction`
	})
}

// Embeds has the methods of a database.
type Embeds struct{ *bun.DB }

func (e Embeds) place(ctx context.Context) error {
	return e.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		return e.NewSelect().Scan(ctx) // want `e is not in the transaction`
	})
}

// Param is given its database by whoever calls it.
func param(ctx context.Context) func(tx bun.Tx, db *bun.DB) error {
	return func(tx bun.Tx, db *bun.DB) error {
		return db.NewSelect().Scan(ctx)
	}
}

func (s *Service) nested(ctx context.Context, before bun.Tx) error {
	return s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_ = outbox.Enqueue(ctx, before, MadeTopic, Made{})       // want `outbox.Enqueue is given before, which is not the transaction of this function; pass tx`
		_, _ = outbox.EnqueueAll(ctx, s.tx, MadeTopic, []Made{}) // want `outbox.EnqueueAll is given s.tx, which is not the transaction of this function; pass tx`
		return tx.RunInTx(ctx, nil, func(ctx context.Context, inner bun.Tx) error {
			_ = tx.NewSelect().Scan(ctx)
			_ = s.DB.NewSelect().Scan(ctx)                 // want `s.DB is not in the transaction.*; use inner`
			_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{}) // want `is given tx, which is not the transaction of this function; pass inner`
			return outbox.Enqueue(ctx, inner, MadeTopic, Made{})
		})
	})
}

func (s *Service) saved(ctx context.Context) error {
	return s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		s.tx = tx
		own, _ := s.DB.Begin() // want `s.DB is not in the transaction`
		_ = outbox.Enqueue(ctx, own, MadeTopic, Made{})
		return outbox.Enqueue(ctx, s.tx, MadeTopic, Made{})
	})
}

func generic[T any](ctx context.Context, db *bun.DB, topic topics.Topic[T], v T) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_ = db.NewSelect().Scan(ctx) // want `db is not in the transaction`
		return outbox.Enqueue(ctx, tx, topic, v)
	})
}

func tested(tx bun.Tx) { _ = global.NewSelect().Scan(context.Background()) }

func sameConnection(ctx context.Context, conn bun.Conn) error {
	return conn.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		return conn.NewSelect().Scan(ctx)
	})
}

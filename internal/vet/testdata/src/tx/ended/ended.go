package ended

import (
	"context"
	"log"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
	"github.com/uptrace/bun"
)

type Made struct{}

var MadeTopic = topics.New[Made]("made", nil)

var global bun.Tx

func straight(ctx context.Context, db *bun.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
	if err := tx.Commit(); err != nil {
		return outbox.Enqueue(ctx, tx, MadeTopic, Made{}) // want `outbox.Enqueue comes after Commit of tx, and so fails; enqueue before, in the transaction that the event is about`
	}
	_, _ = outbox.EnqueueAll(ctx, tx, MadeTopic, []Made{}) // want `outbox.EnqueueAll comes after Commit of tx`
	return outbox.Enqueue(ctx, tx, MadeTopic, Made{})      // want `outbox.Enqueue comes after Commit of tx`
}

func bothWays(ctx context.Context, db bun.IDB, ok bool) {
	tx, _ := db.BeginTx(ctx, nil)
	if ok {
		_ = tx.Commit()
	} else if err := tx.Rollback(); err != nil {
		log.Println(err)
	}
	_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{}) // want `comes after (Commit|Rollback) of tx`
}

func returned(ctx context.Context, tx bun.Tx) (error, error) {
	return tx.Commit(), outbox.Enqueue(ctx, tx, MadeTopic, Made{}) // want `comes after Commit of tx`
}

func within(ctx context.Context, db *bun.DB) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_ = tx.Rollback()
		for range 3 {
			_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{}) // want `comes after Rollback of tx`
		}
		return nil
	})
}

func oneWay(ctx context.Context, db *bun.DB, ok bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		_ = tx.Rollback()
		return err
	}
	if ok {
		_ = tx.Commit()
	}
	if !ok && tx.Commit() == nil {
		return nil
	}
	switch {
	case ok:
		_ = tx.Commit()
	}
	return outbox.Enqueue(ctx, tx, MadeTopic, Made{})
}

func loops(ctx context.Context, db *bun.DB, txs []bun.Tx) {
	for range 3 {
		tx, _ := db.Begin()
		_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
		_ = tx.Commit()
	}
	tx, _ := db.Begin()
	for {
		_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
		_ = tx.Commit()
		tx, _ = db.Begin()
		if len(txs) > 3 {
			break
		}
	}
	_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
	for _, tx := range txs {
		_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
		_ = tx.Commit()
	}
	for i := 0; i < 3; i++ {
		if i > 0 {
			_ = txs[i].Commit()
		}
		_ = outbox.Enqueue(ctx, txs[i], MadeTopic, Made{})
	}
}

func again(ctx context.Context, db *bun.DB) {
	tx, _ := db.Begin()
	_ = tx.Commit()
	tx, _ = db.Begin()
	_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
	_ = tx.Commit()
	begin := func() { tx, _ = db.Begin() }
	begin()
	_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})

	given, _ := db.Begin()
	_ = given.Commit()
	reopen(&given)
	_ = outbox.Enqueue(ctx, given, MadeTopic, Made{})

	_ = global.Commit()
	again(ctx, db)
	_ = outbox.Enqueue(ctx, global, MadeTopic, Made{})
}

func reopen(tx *bun.Tx) {}

// savepoint may be ended, and what it is in lives on.
func savepoint(ctx context.Context, tx bun.Tx) error {
	sp, _ := tx.Begin()
	_ = sp.Rollback()
	_ = outbox.Enqueue(ctx, sp, MadeTopic, Made{})
	return outbox.Enqueue(ctx, tx, MadeTopic, Made{})
}

func elsewhere(ctx context.Context, tx, other bun.Tx) {
	defer func() { _ = tx.Commit() }()
	end := func() { _ = tx.Commit() }
	go tx.Rollback()
	_ = other.Commit()
	_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{})
	end()
}

func panics(ctx context.Context, tx bun.Tx, ok bool) {
	if !ok {
		panic("not ok")
	} else {
		_ = tx.Commit()
	}
	_ = outbox.Enqueue(ctx, tx, MadeTopic, Made{}) // want `comes after Commit of tx`
}

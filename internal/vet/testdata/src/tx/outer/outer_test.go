package outer

import (
	"context"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/uptrace/bun"
)

// tested is passed by its name in a test, which says nothing of the program.
var _ = inTx(nil, tested)

func testIsolation(ctx context.Context, db *bun.DB, before bun.Tx) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_ = find(ctx, db)
		_ = db.NewSelect().Scan(ctx)
		return outbox.Enqueue(ctx, before, MadeTopic, Made{}) // want `outbox.Enqueue is given before`
	})
}

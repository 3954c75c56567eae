package effect

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

func testLocks(ctx context.Context, db *bun.DB) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		time.Sleep(time.Millisecond)
		return nil
	})
}

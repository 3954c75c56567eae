// Package elsewhere does not import outbox, and so is none of our business.
package elsewhere

import (
	"context"

	"github.com/uptrace/bun"
)

func place(ctx context.Context, db *bun.DB) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		return db.NewSelect().Scan(ctx)
	})
}

//outbox:allow outboxtx for nothing // want `//outbox:allow outboxtx allows nothing here`

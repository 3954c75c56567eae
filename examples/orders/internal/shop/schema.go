package shop

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Migrate creates the tables of the shop and the outbox beside them. A real app
// has its migrations in files; those of the outbox can join them, see
// outbox.Migrations.
func Migrate(ctx context.Context, db *bun.DB) error {
	for _, model := range []any{(*Customer)(nil), (*Order)(nil)} {
		if _, err := db.NewCreateTable().Model(model).IfNotExists().Exec(ctx); err != nil {
			return fmt.Errorf("create the tables of the shop: %w", err)
		}
	}
	return outbox.Store{DB: db}.Migrate(ctx)
}

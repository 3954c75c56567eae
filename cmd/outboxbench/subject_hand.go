package main

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"golang.org/x/sync/errgroup"
)

// claimer is a relay by hand: two statements.
type claimer interface {
	// claim takes rows that are due.
	claim(ctx context.Context, token string, limit int) ([]handRow, error)

	// mark records rows of a claim as sent.
	mark(ctx context.Context, token string, ids []string) (int, error)
}

type handRow struct {
	id      string
	payload []byte
}

// claimHand takes the rows of one topic, oldest first, as the library does, with
// everything left out that makes it safe. %[1]s is the table, %[2]s what else
// it sets, %[3]d how many.
const claimHand = `UPDATE %[1]s AS m
SET status = 'claimed', attempts = m.attempts + 1, claim_token = ?::uuid,
	available_at = statement_timestamp() + interval '1 minute'%[2]s
WHERE m.id = ANY (ARRAY(
	SELECT id FROM %[1]s WHERE topic = '` + topicName + `' AND status = 'pending' AND available_at <= statement_timestamp()
	ORDER BY available_at, id LIMIT %[3]d FOR UPDATE SKIP LOCKED))
RETURNING m.id::text, m.payload::text`

const markHand = `UPDATE %[1]s AS m SET status = 'sent', claim_token = NULL, sent_at = statement_timestamp()%[2]s
WHERE m.id = ANY (?::uuid[]) AND m.claim_token = ?::uuid`

// deleteHand is for who keeps nothing.
const deleteHand = `DELETE FROM %[1]s AS m WHERE m.id = ANY (?::uuid[]) AND m.claim_token = ?::uuid%[2]s`

// handSQL is the two statements for one table: what the claim sets besides, how
// rows are marked, and what that sets besides.
type handSQL struct{ table, onClaim, how, onMark string }

var (
	outboxSQL = handSQL{
		outboxTable.name,
		", claimed_at = statement_timestamp(), claimed_by = 'hand', updated_at = statement_timestamp()",
		markHand, ", available_at = statement_timestamp(), updated_at = statement_timestamp()",
	}
	deleteSQL = handSQL{outboxSQL.table, outboxSQL.onClaim, deleteHand, ""}
	leanSQL   = handSQL{leanTable.name, "", markHand, ""}
)

func (s handSQL) claim(limit int) string { return fmt.Sprintf(claimHand, s.table, s.onClaim, limit) }
func (s handSQL) mark() string           { return fmt.Sprintf(s.how, s.table, s.onMark) }

// bunClaimer is by hand through bun.
type bunClaimer struct {
	db  *bun.DB
	sql handSQL
}

func (c bunClaimer) claim(ctx context.Context, token string, limit int) ([]handRow, error) {
	return scanHand(c.db.QueryContext(ctx, c.sql.claim(limit), token))
}

func (c bunClaimer) mark(ctx context.Context, token string, ids []string) (int, error) {
	return affected(c.db.ExecContext(ctx, c.sql.mark(), pgdialect.Array(ids), token))
}

func scanHand(rows *sql.Rows, err error) ([]handRow, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []handRow
	for rows.Next() {
		var r handRow
		if err := rows.Scan(&r.id, &r.payload); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

func affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// pgxClaimer is by hand through pgx alone, with its cache of prepared
// statements.
type pgxClaimer struct {
	pool *pgxpool.Pool
	sql  handSQL
}

func (c pgxClaimer) claim(ctx context.Context, token string, limit int) ([]handRow, error) {
	rows, err := c.pool.Query(ctx, numbered(c.sql.claim(limit)), token)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []handRow
	for rows.Next() {
		var r handRow
		if err := rows.Scan(&r.id, &r.payload); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

func (c pgxClaimer) mark(ctx context.Context, token string, ids []string) (int, error) {
	tag, err := c.pool.Exec(ctx, numbered(c.sql.mark()), ids, token)
	return int(tag.RowsAffected()), err
}

// numbered turns ? into $1, $2 and so on.
func numbered(query string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// step claims once, handles and marks. It returns how many rows there were, and
// how long the claim took.
func step(ctx context.Context, c claimer, batch int, t *tally) (int, time.Duration, error) {
	token := uuid.NewString()
	begun := time.Now()
	rows, err := c.claim(ctx, token, batch)
	took := time.Since(begun)
	if err != nil || len(rows) == 0 {
		return 0, took, err
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.id
		if err := t.decode(r.payload); err != nil {
			return 0, took, err
		}
	}
	n, err := c.mark(ctx, token, ids)
	if err == nil && n != len(ids) {
		err = fmt.Errorf("marked %d of %d rows", n, len(ids))
	}
	return len(rows), took, err
}

// drainByHand lets workers claim, handle and mark until there is nothing left.
func drainByHand(ctx context.Context, c claimer, workers, batch int, t *tally) error {
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error {
			for {
				if n, _, err := step(ctx, c, batch, t); err != nil || n == 0 {
					return err
				}
			}
		})
	}
	return group.Wait()
}

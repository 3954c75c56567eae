package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/topics"
)

// Enqueue writes v as a message of topic in the transaction tx: if the
// transaction commits, a relay delivers the message; if not, it never existed.
// It is one statement and one round trip.
//
// Code that holds a bun.IDB gets a transaction with its RunInTx, which begins
// one on a *bun.DB and sets a savepoint on a bun.Tx.
//
// Before it sends any SQL, and so with the transaction still usable, Enqueue
// refuses a payload that the topic cannot encode (*topics.EncodeError, or
// [ErrPayloadTooLarge]), a key, order key or header that cannot be stored
// ([ErrInvalidKey]), options that contradict each other, and a transaction that
// is the zero bun.Tx ([ErrNoTransaction]). After an error from the database the
// transaction is lost on Postgres; it matches [ErrNotMigrated] if the table is
// missing and [ErrSerialization] if the whole transaction should be run again.
//
// A message whose key is already in the table, committed or in this
// transaction, is not written again, and that is no error; see [Into]. While
// another open transaction holds the same key, Enqueue waits for its end.
func Enqueue[T any](ctx context.Context, tx bun.Tx, topic topics.Topic[T], v T, opts ...EnqueueOption) error {
	o, err := applyOptions(opts)
	if err != nil {
		return err
	}
	d, err := newDraft(topic, v, o)
	if err != nil {
		return err
	}
	ins, err := newInserter(tx, o)
	if err != nil {
		return err
	}
	receipt, err := ins.insertOne(ctx, d)
	if err != nil {
		return ins.explain(topic.Name(), err)
	}
	if o.into != nil {
		*o.into = receipt
	}
	return nil
}

// EnqueueAll writes one message of topic for each of vs, in a few statements.
// Every receipt stands at the index of its payload. The options hold for all of
// them; [Key] and [Into] are refused, since a key is unique and the receipts
// come back. Nothing is written if one of the payloads is refused. Errors are
// those of [Enqueue].
//
// Rows are inserted in the order of their keys, so that two calls with the same
// keys cannot deadlock, while ids stay in the order of vs.
func EnqueueAll[T any](ctx context.Context, tx bun.Tx, topic topics.Topic[T], vs []T, opts ...EnqueueOption) ([]Receipt, error) {
	o, err := applyOptions(opts)
	if err != nil {
		return nil, err
	}
	if o.key != nil || o.into != nil {
		return nil, errors.New("outbox: EnqueueAll takes neither Key nor Into; derive keys in the topic and use the receipts that it returns")
	}
	ins, err := newInserter(tx, o)
	if err != nil {
		return nil, err
	}
	drafts := make([]draft, len(vs))
	for i, v := range vs {
		if drafts[i], err = newDraft(topic, v, o); err != nil {
			return nil, fmt.Errorf("payload %d of %d: %w", i+1, len(vs), err)
		}
	}
	receipts, err := ins.insertAll(ctx, drafts)
	if err != nil {
		return nil, ins.explain(topic.Name(), err)
	}
	return receipts, nil
}

// draft is a message that is about to be inserted.
type draft struct {
	ID       ID     `json:"id"`
	Key      string `json:"key,omitempty"`
	OrderKey string `json:"order_key,omitempty"`
	Payload  string `json:"payload"`
	topic    string
	version  int
}

func newDraft[T any](topic topics.Topic[T], v T, o enqueueOptions) (draft, error) {
	payload, err := topic.Encode(v)
	if err != nil {
		return draft{}, fmt.Errorf("outbox: %w", err)
	}
	d := draft{Payload: string(payload), topic: topic.Name(), version: topic.Version()}
	if o.key != nil {
		d.Key = *o.key
	} else {
		d.Key = topic.Key(v)
	}
	if o.orderKey != nil {
		d.OrderKey = *o.orderKey
	} else {
		d.OrderKey = topic.Order(v)
	}
	if err := errors.Join(checkKey("key", d.Key), checkKey("order key", d.OrderKey)); err != nil {
		return draft{}, err
	}
	d.ID, err = newID()
	if err != nil {
		return draft{}, fmt.Errorf("outbox: make an id: %w", err)
	}
	return d, nil
}

// inserter writes drafts in one transaction.
type inserter struct {
	sqlDialect
	tx      bun.Tx
	headers any // JSON text, or nil for none
	due     string
	dueArg  any
}

func newInserter(tx bun.Tx, o enqueueOptions) (inserter, error) {
	d, err := dialectOfTx(tx)
	if err != nil {
		return inserter{}, err
	}
	ins := inserter{sqlDialect: d, tx: tx, due: d.now()}
	switch {
	case o.delay > 0:
		ins.due, ins.dueArg = d.nowPlus("?"), o.delay.Microseconds()
	case !o.at.IsZero():
		ins.due, ins.dueArg = "?", d.instant(o.at)
	}
	if len(o.headers) > 0 {
		text, err := json.Marshal(o.headers)
		if err != nil {
			return inserter{}, fmt.Errorf("outbox: encode headers: %w", err)
		}
		ins.headers = string(text)
	}
	return ins, nil
}

// dialectOfTx returns the dialect of tx, or ErrNoTransaction if tx was not made
// by bun.
func dialectOfTx(tx bun.Tx) (d sqlDialect, err error) {
	if tx.Tx == nil {
		return d, ErrNoTransaction
	}
	defer func() {
		if recover() != nil { // a bun.Tx around a plain *sql.Tx has no dialect
			err = fmt.Errorf("%w (the bun.Tx was not begun by bun)", ErrNoTransaction)
		}
	}()
	return dialectOf(tx.Dialect().Name())
}

const conflict = " ON CONFLICT (key) WHERE key IS NOT NULL DO NOTHING"

func (ins inserter) insertOne(ctx context.Context, d draft) (Receipt, error) {
	query := "INSERT INTO outbox_messages (id, topic, key, order_key, version, payload, headers, available_at) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, " + ins.due + ")"
	if d.Key != "" {
		query += conflict
	}
	args := []any{d.ID.String(), d.topic, nullable(d.Key), nullable(d.OrderKey), d.version, d.Payload, ins.headers}
	if ins.dueArg != nil {
		args = append(args, ins.dueArg)
	}
	res, err := ins.tx.ExecContext(markEnqueue(ctx), query, args...)
	if err != nil {
		return Receipt{}, err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return Receipt{}, err
	}
	if n == 0 {
		return Receipt{Duplicate: true}, nil
	}
	return Receipt{ID: d.ID}, nil
}

// The bounds of one statement of EnqueueAll.
const (
	maxStatementRows  = 1000
	maxStatementBytes = 4 << 20
)

var draftColumns = []recordColumn{{"id", "uuid"}, {"key", "text"}, {"order_key", "text"}, {"payload", "text"}}

func (ins inserter) insertAll(ctx context.Context, drafts []draft) ([]Receipt, error) {
	order := make([]int, len(drafts))
	keyed := false
	for i, d := range drafts {
		order[i] = i
		keyed = keyed || d.Key != ""
	}
	if keyed {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(drafts[a].Key, drafts[b].Key) })
	}
	receipts := make([]Receipt, len(drafts))
	batch := insertBatch{ids: make(map[ID]bool, len(drafts))}
	for len(order) > 0 {
		var n, bytes int
		rows := make([]draft, 0, min(len(order), maxStatementRows))
		for n < len(order) && n < maxStatementRows && (n == 0 || bytes+len(drafts[order[n]].Payload) <= maxStatementBytes) {
			bytes += len(drafts[order[n]].Payload)
			rows = append(rows, drafts[order[n]])
			n++
		}
		if err := ins.insertRows(ctx, rows, keyed, &batch); err != nil {
			return nil, err
		}
		order = order[n:]
	}
	for i, d := range drafts {
		if !keyed || batch.ids[d.ID] {
			receipts[i].ID = d.ID
		} else {
			receipts[i].Duplicate = true
		}
	}
	return receipts, nil
}

// insertBatch is what the statements of one EnqueueAll share.
type insertBatch struct {
	ids map[ID]bool // what was written
	// created is the time of the first statement that wrote a row. Keyed rows
	// are inserted out of order, so all of them carry it: within one time, the
	// ids keep the order of the call.
	created any
}

func (ins inserter) insertRows(ctx context.Context, rows []draft, keyed bool, batch *insertBatch) error {
	created := ins.now()
	args := []any{rows[0].topic, rows[0].version, ins.headers}
	if ins.dueArg != nil {
		args = append(args, ins.dueArg)
	}
	if batch.created != nil {
		created = ins.timestamp("?")
		args = append(args, batch.created, batch.created)
	}
	args = append(args, record(rows))
	cast := ""
	if ins.postgres {
		cast = "::json"
	}
	query := "INSERT INTO outbox_messages (id, topic, key, order_key, version, payload, headers, available_at, created_at, updated_at) " +
		"SELECT r.id, ?, r.key, r.order_key, ?, r.payload" + cast + ", ?" + cast + ", " + ins.dueOfMany() + ", " + created + ", " + created +
		" FROM " + ins.recordSet("r", draftColumns...) + " WHERE true"
	if !keyed {
		_, err := ins.tx.ExecContext(markEnqueue(ctx), query, args...)
		return err
	}
	scan := func(rows *sql.Rows) error {
		var id ID
		var at dbTime
		if err := rows.Scan(&id, &at); err != nil {
			return err
		}
		batch.ids[id] = true
		if batch.created == nil {
			batch.created = at.raw
		}
		return nil
	}
	return queryOn(markEnqueue(ctx), ins.tx, scan, query+conflict+" RETURNING id, "+ins.micros("created_at"), args)
}

// dueOfMany is due with the type that a SELECT list does not infer.
func (ins inserter) dueOfMany() string {
	if ins.postgres {
		return "(" + ins.due + ")::timestamptz"
	}
	return ins.due
}

// explain names the remedy of an error from the database.
func (ins inserter) explain(topic string, err error) error {
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%w: enqueue %q: %w", ErrNoTransaction, topic, err)
	case isMissingTable(err):
		return fmt.Errorf("%w: enqueue %q: %w", ErrNotMigrated, topic, err)
	case ins.postgres && classify(err) == failureContention:
		return fmt.Errorf("%w: enqueue %q: %w", ErrSerialization, topic, err)
	}
	return fmt.Errorf("outbox: enqueue %q: %w", topic, err)
}

// nullable turns "" into NULL.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

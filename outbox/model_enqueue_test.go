package outbox_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// modelTx is a transaction of a producer, and the rows that it will add.
type modelTx struct {
	tx   bun.Tx
	rows []*modelRow
}

// enqueue writes messages in a new transaction, or in one that has been open for
// a while, and ends it or leaves it open.
func (m *modelMachine) enqueue(t *rapid.T) {
	var tx *modelTx
	if len(m.open) > 0 && rapid.Bool().Draw(t, "in an open transaction") {
		tx = m.open[rapid.IntRange(0, len(m.open)-1).Draw(t, "transaction")]
	} else {
		begun, err := m.db.BeginTx(context.Background(), nil)
		require.NoError(t, err)
		tx = &modelTx{tx: begun}
		m.open = append(m.open, tx)
	}
	m.enqueueIn(t, tx)
	if m.postgres && len(m.open) <= 2 && rapid.IntRange(0, 3).Draw(t, "leave it open") == 3 {
		return
	}
	m.endOne(t, tx)
}

// endTx ends a transaction whose rows nobody has seen.
func (m *modelMachine) endTx(t *rapid.T) {
	if len(m.open) == 0 {
		t.Skip("no transaction is open")
	}
	m.endOne(t, m.open[0])
}

func (m *modelMachine) endOne(t *rapid.T, tx *modelTx) {
	m.open = slices.DeleteFunc(m.open, func(o *modelTx) bool { return o == tx })
	if rapid.IntRange(0, 4).Draw(t, "roll back") == 4 {
		require.NoError(t, tx.tx.Rollback())
		return
	}
	require.NoError(t, tx.tx.Commit())
	m.table.rows = append(m.table.rows, tx.rows...)
}

// modelWhen is when messages are due.
type modelWhen struct {
	opts []outbox.EnqueueOption
	due  modelTime
}

func drawModelWhen(t *rapid.T) modelWhen {
	switch n := rapid.IntRange(-2, 20).Draw(t, "due"); n {
	case -2:
		return modelWhen{[]outbox.EnqueueOption{outbox.After(time.Hour)}, modelIn(time.Hour)}
	case -1:
		at := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		return modelWhen{[]outbox.EnqueueOption{outbox.At(at)}, modelTime{at: at}}
	case 0:
		return modelWhen{nil, modelNow()}
	default:
		at := time.Date(2001, 1, 1, 0, n, 0, 0, time.UTC)
		return modelWhen{[]outbox.EnqueueOption{outbox.At(at)}, modelTime{at: at}}
	}
}

// enqueueIn writes one to three messages.
func (m *modelMachine) enqueueIn(t *rapid.T, tx *modelTx) {
	n := rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 3, 4, 5}).Draw(t, "topic")
	topic, when := modelTopics[n], drawModelWhen(t)
	opts, headers := when.opts, ""
	if rapid.Bool().Draw(t, "header") {
		opts, headers = append(opts, outbox.Header("h", "1")), `{"h":"1"}`
	}
	free := m.freeKeys(tx)
	events := make([]modelEvent, rapid.IntRange(1, 3).Draw(t, "rows"))
	for i := range events {
		m.serial++
		events[i] = modelEvent{
			N: m.serial, Key: rapid.SampledFrom(free).Draw(t, "key"),
			Order: rapid.SampledFrom([]string{"", "", "o1", "o2"}).Draw(t, "order key"),
		}
	}
	var receipts []outbox.Receipt
	if rapid.Bool().Draw(t, "all at once") {
		var err error
		receipts, err = outbox.EnqueueAll(context.Background(), tx.tx, topic, events, opts...)
		require.NoError(t, err)
	} else {
		receipts = make([]outbox.Receipt, len(events))
		for i, e := range events {
			require.NoError(t, outbox.Enqueue(context.Background(), tx.tx, topic, e, append(slices.Clone(opts), outbox.Into(&receipts[i]))...))
		}
	}
	require.Len(t, receipts, len(events))
	var last outbox.ID
	for i, e := range events {
		duplicate := e.Key != "" && (m.hasKey(m.table.rows, e.Key) || m.hasKey(tx.rows, e.Key))
		require.Equal(t, duplicate, receipts[i].Duplicate, "key %q", e.Key)
		require.Equal(t, duplicate, receipts[i].ID.IsZero())
		if duplicate {
			continue
		}
		require.Negative(t, bytes.Compare(last[:], receipts[i].ID[:]), "ids are in the order of the calls")
		last = receipts[i].ID
		tx.rows = append(tx.rows, &modelRow{
			serial: e.N, due: when.due, created: modelNow(), updated: modelNow(),
			modelCells: modelCells{
				ID: last, Topic: topic.Name(), Key: modelText(e.Key), OrderKey: modelText(e.Order), Version: topic.Version(),
				Payload: fmt.Sprintf(`{"n":%d,"key":%q,"order":%q}`, e.N, e.Key, e.Order), Headers: modelText(headers),
				Status: outbox.StatusPending, LastError: "-", ClaimedBy: "-",
			},
		})
	}
}

func (m *modelMachine) hasKey(rows []*modelRow, key string) bool {
	return slices.ContainsFunc(rows, func(r *modelRow) bool { return r.Key == key })
}

// freeKeys are those that no other open transaction holds: for its end an Enqueue
// would wait.
func (m *modelMachine) freeKeys(tx *modelTx) []string {
	return slices.DeleteFunc([]string{"", "k1", "k2", "k3", "k4"}, func(key string) bool {
		return slices.ContainsFunc(m.open, func(other *modelTx) bool { return other != tx && m.hasKey(other.rows, key) })
	})
}

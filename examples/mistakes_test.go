package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// edit replaces a text that occurs once in a file.
type edit struct{ file, old, new string }

const (
	shopFile   = "orders/internal/shop/service.go"
	clientFile = "orders/internal/picking/client.go"
	relayFile  = "orders/internal/picking/relay.go"
	recipeFile = "recipes/shop.go"

	enqueueOrder = `		if err := outbox.Enqueue(ctx, tx, events.OrderCreatedTopic, created(order)); err != nil {
			return err
		}
`
	keyedOrder = `events.OrderCreatedTopic, created(order)); err != nil`
)

// mistakes are those that somebody makes in an application sooner or later. Each
// must make a test of the example fail that has it, with a message that names it.
var mistakes = []struct {
	name  string
	edits []edit
	says  []string
}{
	{"a wrong value", []edit{{shopFile, "Quantity: o.Quantity}\n}", "Quantity: 1}\n}"}}, []string{"quantity is 1, want 2"}},
	{"the wrong topic", []edit{
		{shopFile, "events.OrderCreatedTopic", `topics.New[events.OrderCreated]("orders.create", nil)`},
		{shopFile, `typedoutbox/outbox"`, `typedoutbox/outbox"` + "\n\t" + `"github.com/typedoutbox/typedoutbox/topics"`},
	}, []string{`one that matches is there, but on topic "orders.create"`}},
	{"not enqueued", []edit{{shopFile, enqueueOrder, ""}, {shopFile, "\n// nextNumber", "\nvar _, _ = created, outbox.Permanent\n\n// nextNumber"}}, []string{"found 0", "the table is empty"}},
	{"enqueued twice", []edit{{shopFile, enqueueOrder, enqueueOrder + strings.Replace(enqueueOrder, "(order))", `(order), outbox.Key(""))`, 1)}}, []string{
		"none is missing, 3 too many",
	}},
	{"in a transaction of its own", []edit{
		{shopFile, enqueueOrder, ""},
		{shopFile, "	if err != nil {\n		return Order{}, fmt.Errorf(\"place", `	if err := s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, events.OrderCreatedTopic, created(order))
	}); err != nil {
		return Order{}, err
	}
` + "	if err != nil {\n		return Order{}, fmt.Errorf(\"place"},
	}, []string{`want no message of topic "orders.created" (events.OrderCreated), found 1`}},
	{"never committed", []edit{
		{shopFile, "err := s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {", `tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return Order{}, err
	}
	err = func(ctx context.Context, tx bun.Tx) error {`},
		{shopFile, "return charge(ctx, tx, order)\n	})", "return charge(ctx, tx, order)\n	}(ctx, tx)"},
	}, []string{
		"has enqueued on this topic and is not committed; only its own bun.Tx sees that",
		"was neither committed nor rolled back by the end of the test",
	}},
	{"a wrong key", []edit{{shopFile, keyedOrder, strings.Replace(keyedOrder, "))", "), outbox.Key(order.ID))", 1)}}, []string{`key is "ord_`, `want "orders.created#ord_`}},
	{"a wrong order key", []edit{{shopFile, keyedOrder, strings.Replace(keyedOrder, "))", `), outbox.OrderKey("all"))`, 1)}}, []string{`order_key is "all", want "customer#ann"`}},
	{"a wrong delay", []edit{{recipeFile, "outbox.After(72*time.Hour)", "outbox.After(72*time.Minute)"}}, []string{"delay is 1h12m0s, want 72h0m0s"}},
	{"a missing header", []edit{{recipeFile, `, outbox.Header("tenant", tenant)`, ""}}, []string{`header tenant is absent, want "acme"`}},
	{"the order of numbers", []edit{{shopFile, "Number: o.Number, SKU", "Number: 4 - o.Number, SKU"}}, []string{"number is 3, want 1", "number is 1, want 3"}},

	{"no handler", []edit{{relayFile, "events.HandleOutbox(mux, picker{warehouse: warehouse})", "_, _ = events.HandleOutbox, picker{warehouse: warehouse}"}}, []string{"the Mux has no handler; register one with Handle"}},
	{"nil for a failure", []edit{{clientFile, ">= 500:\n		return err", ">= 500:\n		return nil"}}, []string{"want the message to be retried, but it is this:", "sent orders.created"}},
	{"permanent instead of retry", []edit{{clientFile, ">= 500:\n		return err", ">= 500:\n		return outbox.Permanent(err)"}}, []string{"want the message to be retried, but it is this:", "parked orders.created", "after attempt 1: the warehouse answered 500"}},
	{"retry instead of permanent", []edit{{clientFile, "return outbox.Permanent(err)", "return err"}}, []string{"want the message to be parked, but it is this:", "retried orders.created"}},
	{"the receiver's delay is ignored", []edit{{clientFile, "return outbox.RetryAfter(time.Duration(seconds)*time.Second, err)", "_ = time.Duration(seconds)"}}, []string{`is not greater than or equal to "1m0s"`}},
	{"attempts spent on an outage", []edit{{clientFile, "return outbox.Unavailable(err)", "return err"}}, []string{"Should be zero, but was 1"}},
	{"not idempotent", []edit{
		{clientFile, "messageID.String()", "rand.Text()"},
		{clientFile, `"context"`, `"context"` + "\n\t" + `"crypto/rand"`},
	}, []string{"the handlers are not idempotent: a second delivery of the same messages has changed the effects", " is 2, was 1"}},

	{"a second delivery fails", []edit{{recipeFile, `.On("CONFLICT DO NOTHING")`, ""}}, []string{"a second delivery of the same messages did not end well", "retried orders.placed", "UNIQUE constraint failed"}},
	{"a second delivery enqueues again", []edit{{recipeFile, `topics.New("parcels.packed", &topics.Options[ParcelPacked]{
	Key: func(e ParcelPacked) string { return topics.JoinKey("parcels.packed", e.OrderID) },
})`, `topics.New[ParcelPacked]("parcels.packed", nil)`}}, []string{"a second delivery of the same messages has enqueued another one; give it a key", "parcels.packed"}},
	{"a cascade is missing", []edit{{recipeFile, "return outbox.Enqueue(ctx, tx, ParcelPackedTopic, ParcelPacked(parcel))", "return nil"}}, []string{"want exactly 2 sent and nothing else", "sent orders.placed"}},
	{"a cascade has no handler", []edit{{recipeFile, "outbox.Handle(mux, ParcelPackedTopic, s.ship)", "_ = s.ship"}}, []string{"unhandled parcels.packed"}},
	{"the upcaster is wrong", []edit{{recipeFile, "e.Euros * 100", "e.Euros"}}, []string{"Cents: (int64) 42"}},
	{"the upcaster is missing", []edit{{recipeFile, "	Upcast:  map[int]topics.Upcaster{1: topics.Upcast(fromEuros)},\n", "}); var _ = topics.Upcast(fromEuros); var _ = (topics.Options[int]{\n"}}, []string{"no upcaster from version 1 to 2"}},
	{"the order of a customer is lost", []edit{{recipeFile, `topics.JoinKey("customer", e.CustomerID)`, `topics.JoinKey("customer", e.CustomerID, e.OrderID)`}}, []string{"want [retried waiting sent], but this happened:", `sent orders.placed {"order_id":"o-2"`}},
}

// TestMistakes makes each mistake in the sources of the examples, in memory, and
// runs their tests. It compiles and links once for each, which takes some
// minutes, so it runs only where OUTBOX_TEST_MISTAKES is set.
func TestMistakes(t *testing.T) {
	if os.Getenv("OUTBOX_TEST_MISTAKES") == "" {
		t.Skip("set OUTBOX_TEST_MISTAKES=1 to make every mistake, which takes some minutes")
	}
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			overlay := map[string]string{}
			packages := map[string]bool{}
			for i, e := range m.edits {
				original := filepath.Join(here, filepath.FromSlash(e.file))
				read := original
				if edited, ok := overlay[original]; ok {
					read = edited
				}
				source, err := os.ReadFile(read)
				require.NoError(t, err)
				require.Equal(t, 1, strings.Count(string(source), e.old), "edit %d of %s: %q", i, e.file, e.old)
				edited := filepath.Join(t.TempDir(), "edited.go")
				require.NoError(t, os.WriteFile(edited, []byte(strings.Replace(string(source), e.old, e.new, 1)), 0o644))
				overlay[original] = edited
				packages["./"+filepath.ToSlash(filepath.Dir(filepath.FromSlash(e.file)))] = true
			}
			doc, err := json.Marshal(map[string]any{"Replace": overlay})
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "overlay.json")
			require.NoError(t, os.WriteFile(file, doc, 0o644))
			// SQLite is enough to see a mistake, and needs no server.
			args := []string{"test", "-short", "-vet=off", "-ldflags=-s -w", "-overlay=" + file, "-skip=/postgres|//postgres"}
			for pkg := range packages {
				args = append(args, pkg)
			}
			out, err := exec.Command("go", args...).CombinedOutput()
			require.Error(t, err, "no test fails")
			for _, says := range m.says {
				require.Contains(t, string(out), says)
			}
			t.Logf("%s", out)
		})
	}
}

package outbox_test

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 6: a payload that kills the process is parked in the end, and never
// parks its neighbours.

const (
	poisonDriver = "OUTBOX_POISON_DRIVER"
	poisonURL    = "OUTBOX_POISON_URL"
)

// poisonDeaths are the ways in which a payload kills its process, by payload.
var poisonDeaths = map[string]func(){
	"exit": func() { os.Exit(3) },
	"kill": func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"panic in another goroutine": func() {
		go panic("poison")
		select {}
	},
}

// TestPoisonedProcess is the process that TestPoisonIsParked starts again and
// again. It delivers what is due.
func TestPoisonedProcess(t *testing.T) {
	if os.Getenv(poisonURL) == "" {
		t.Skip("started by TestPoisonIsParkedAndItsNeighboursAreSent")
	}
	f := &fixture{driver: os.Getenv(poisonDriver), url: os.Getenv(poisonURL)}
	f.postgres = f.driver != "sqlite"
	f.db = f.connect(t, nil)
	r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
		if die := poisonDeaths[d.Payload.ID]; die != nil {
			die()
		}
		return nil
	}))
	r.MaxAttempts = 3
	drain(t, r)
}

// expireLeasesOfTheDead ends every lease once the server has noticed that the
// process which held them is gone. A statement that it had sent could otherwise
// still claim rows whose leases had just ended, which in life is a lease later.
func (f *fixture) expireLeasesOfTheDead(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		backends := 0
		if f.postgres {
			require.NoError(t, f.db.NewRaw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").Scan(t.Context(), &backends))
		}
		return backends <= f.db.Stats().OpenConnections
	}, "the connections of the dead end")
	f.expireLeases(t)
}

// F06: a payload that kills the process loops for ever.
func TestPoisonIsParkedAndItsNeighboursAreSent(t *testing.T) {
	for death := range poisonDeaths {
		t.Run(death, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				ids := numbers(30)
				ids[12] = death
				rows := f.enqueue(t, plainTopic, ids)
				deaths := 0
				for {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPoisonedProcess$")
					child.Env = append(os.Environ(), poisonDriver+"="+f.driver, poisonURL+"="+f.url)
					out, err := child.CombinedOutput()
					cancel()
					if err == nil {
						break
					}
					deaths++
					require.LessOrEqual(t, deaths, 3, "it dies for ever: %s", out)
					require.LessOrEqual(t, f.count(t, outbox.StatusFailed), 0)
					f.expireLeasesOfTheDead(t) // the restart comes after the leases have ended
				}
				require.Equal(t, 3, deaths, "one for each attempt")
				for i, id := range rows {
					m := f.get(t, id)
					if i == 12 {
						require.Equal(t, outbox.StatusFailed, m.Status)
						require.Equal(t, 3, m.Attempts)
						require.Equal(t, "lease expired on the last attempt", m.LastError)
						continue
					}
					require.Equal(t, outbox.StatusSent, m.Status, "row %d", i)
					require.LessOrEqual(t, m.Attempts, 2, "row %d", i)
				}
			})
		})
	}
}

package effect

import (
	"context"
	"net/http"
	"net/smtp"
	"os/exec"
	"time"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
	"github.com/uptrace/bun"
)

type Made struct{}

var MadeTopic = topics.New[Made]("made", nil)

type mailer struct{ client *http.Client }

func (m mailer) send() error { return deliver(m.client) }

func deliver(c *http.Client) error {
	func() { ping() }()
	_, err := c.Get("x")
	return err
}

func ping() { _, _ = http.Get("x") }

func recursive(n int) {
	recursive(n - 1)
	exec.Command("true").Run()
}

func generic[T any](v T) { time.Sleep(1) }

func starts() { go ping() }

func builds() func() { return func() { ping() } }

func harmless() error { return exec.Command("true").Err }

type doer interface {
	Do(*http.Request) (*http.Response, error)
}

func direct(ctx context.Context, db *bun.DB, m mailer, d doer) error {
	_, _ = http.Get("x")
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, _ = http.Get("x")                          // want `http.Get is called within the transaction, and a rollback does not take it back; enqueue an event, and do it in the handler`
		_, _ = m.client.Do(nil)                       // want `m.client.Do is called within the transaction`
		_, _ = http.DefaultTransport.RoundTrip(nil)   // want `http.DefaultTransport.RoundTrip is called`
		_ = smtp.SendMail("", nil, "", nil, nil)      // want `smtp.SendMail is called`
		_ = exec.Command("true").Run()                // want `exec.Command\("true"\).Run is called`
		_, _ = exec.CommandContext(ctx, "x").Output() // want `Output is called`
		time.Sleep(time.Second)                       // want `time.Sleep is called`
		defer ping()                                  // want `ping calls net/http.Get \(effect.go:29:\d+\) within the transaction`
		_ = m.send()                                  // want `m.send calls \(\*net/http.Client\).Get \(effect.go:25:\d+\) within`
		recursive(3)                                  // want `recursive calls \(\*os/exec.Cmd\).Run`
		generic(1)                                    // want `generic calls time.Sleep`
		func() { _ = deliver(nil) }()                 // want `deliver calls \(\*net/http.Client\).Get`
		starts()
		later := builds()
		go ping()
		hook := func() { ping() }
		_ = harmless()
		_, _ = d.Do(nil)
		_, _ = http.NewRequest("GET", "x", nil)
		//outbox:allow outboxeffect the sandbox has no other way
		_, _ = http.Get("x")
		_, _ = later, hook
		return outbox.Enqueue(ctx, tx, MadeTopic, Made{})
	})
}

func named(ctx context.Context, tx bun.Tx) error {
	ping() // want `ping calls net/http.Get`
	return nil
}

func byName(ctx context.Context, db *bun.DB) error { return db.RunInTx(ctx, nil, named) }

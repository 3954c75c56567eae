package outbox

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/topics"
)

// The bounds of sensible settings.
const (
	maxBatch         = 10_000
	maxMaxAttempts   = 1_000_000
	minClaimTimeout  = 100 * time.Millisecond
	maxClaimTimeout  = 24 * time.Hour
	maxDuration      = 100 * 365 * 24 * time.Hour
	defaultRetention = 7 * 24 * time.Hour

	// statementTimeout bounds one statement of the relay, unless the lease
	// asks for less.
	statementTimeout = 5 * time.Second
)

// relaySettings is a Relay with its defaults filled in and found sane.
type relaySettings struct {
	db      *bun.DB
	session session
	mux     *Mux // nil with a raw Deliver
	deliver DeliverFunc
	take    takeSet
	log     *slog.Logger
	name    string

	interval                         time.Duration
	batch, concurrency, maxAttempts  int
	baseBackoff, maxBackoff          time.Duration
	maxOutage                        time.Duration
	claimTimeout                     time.Duration
	deliverTimeout, shutdownTimeout  time.Duration
	retention                        time.Duration
	claimStatement, renewalStatement time.Duration
	recordStatement                  time.Duration
}

// settings checks the fields and fills in the defaults. Its error lists
// everything that is wrong.
func (r *Relay) settings() (relaySettings, error) {
	s := relaySettings{
		db: r.DB, mux: r.Mux, deliver: r.Deliver, log: r.Logger, name: r.Name,
		interval:        cmp.Or(r.Interval, time.Second),
		batch:           cmp.Or(r.Batch, 100),
		concurrency:     cmp.Or(r.Concurrency, 10),
		maxAttempts:     cmp.Or(r.MaxAttempts, 12),
		baseBackoff:     cmp.Or(r.BaseBackoff, 5*time.Second),
		maxOutage:       cmp.Or(r.MaxOutage, 24*time.Hour),
		claimTimeout:    cmp.Or(r.ClaimTimeout, time.Minute),
		deliverTimeout:  cmp.Or(r.DeliverTimeout, time.Minute),
		shutdownTimeout: cmp.Or(r.ShutdownTimeout, 15*time.Second),
		retention:       cmp.Or(r.Retention, defaultRetention),
	}
	s.maxBackoff = cmp.Or(r.MaxBackoff, max(30*time.Minute, s.baseBackoff))
	if s.log == nil {
		s.log = slog.Default()
	}
	var errs []error
	if s.name == "" {
		s.name, errs = defaultName(), nil
	} else if err := checkKey("relay name", s.name); err != nil {
		errs = append(errs, err)
	}
	s.log = s.log.With("relay", s.name)

	errs = append(errs, s.checkNumbers()...)
	var err error
	if s.session, err = newSession(r.DB); err != nil {
		errs = append(errs, err)
	} else if s.session.postgres && r.DB.Stats().MaxOpenConnections == 1 {
		errs = append(errs, errors.New("the pool of DB allows one connection, and renewals need one of their own; raise SetMaxOpenConns to 2 or more"))
	}
	errs = append(errs, s.checkDestination(r.TopicPrefix)...)
	if len(errs) > 0 {
		return s, &settingsError{errs: errs}
	}

	s.take = newTakeSet(r.Mux, r.TopicPrefix, s.maxAttempts)
	if r.Mux != nil {
		s.deliver = r.Mux.Deliver
	}
	s.claimStatement = min(statementTimeout, s.claimTimeout/2)
	// A renewal that begins a quarter into the lease and is given up after twice
	// this leaves another quarter for the next.
	s.renewalStatement = min(statementTimeout, s.claimTimeout/4)
	// While a statement that records hangs in the server, its rows are locked and
	// their leases cannot be renewed.
	s.recordStatement = min(statementTimeout, max(s.claimTimeout/4, time.Second))
	return s, nil
}

func (s *relaySettings) checkNumbers() (errs []error) {
	between := func(name string, v, low, high time.Duration) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("%s is %v; use %v to %v, or 0 for the default", name, v, low, high))
		}
	}
	count := func(name string, v, high int) {
		if v < 1 || v > high {
			errs = append(errs, fmt.Errorf("%s is %d; use 1 to %d, or 0 for the default", name, v, high))
		}
	}
	between("Interval", s.interval, time.Millisecond, maxDuration)
	count("Batch", s.batch, maxBatch)
	count("Concurrency", s.concurrency, maxBatch)
	count("MaxAttempts", s.maxAttempts, maxMaxAttempts)
	between("BaseBackoff", s.baseBackoff, time.Nanosecond, maxDuration)
	between("MaxBackoff", s.maxBackoff, minBackoff, maxDuration)
	between("MaxOutage", s.maxOutage, time.Nanosecond, maxDuration)
	between("ClaimTimeout", s.claimTimeout, minClaimTimeout, maxClaimTimeout)
	between("DeliverTimeout", s.deliverTimeout, time.Nanosecond, maxDuration)
	between("ShutdownTimeout", s.shutdownTimeout, time.Nanosecond, maxDuration)
	if s.retention > maxDuration {
		errs = append(errs, fmt.Errorf("the Retention is %v; use at most %v, or a negative value to keep everything", s.retention, maxDuration))
	}
	if s.baseBackoff > s.maxBackoff {
		errs = append(errs, fmt.Errorf("BaseBackoff %v is longer than MaxBackoff %v; swap them or raise MaxBackoff", s.baseBackoff, s.maxBackoff))
	}
	return errs
}

func (s *relaySettings) checkDestination(prefix string) (errs []error) {
	if prefix != "" {
		if err := topics.CheckName(prefix); err != nil {
			errs = append(errs, fmt.Errorf("TopicPrefix %q matches no topic, since it is taken literally: %w", prefix, err))
		}
	}
	switch {
	case s.mux == nil && s.deliver == nil:
		errs = append(errs, errors.New("neither Mux nor Deliver is set; set one"))
	case s.mux != nil && s.deliver != nil:
		errs = append(errs, errors.New("both Mux and Deliver are set; set one"))
	case s.mux != nil:
		errs = append(errs, s.mux.check(prefix)...)
	}
	return errs
}

// settingsError is everything that keeps a relay from starting, on one line.
type settingsError struct{ errs []error }

func (e *settingsError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = strings.TrimPrefix(err.Error(), "outbox: ")
	}
	return "outbox: the relay cannot start: " + strings.Join(texts, "; ")
}

// Unwrap returns what is wrong.
func (e *settingsError) Unwrap() []error { return e.errs }

// defaultName is unique, so that claimed_by tells processes apart.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil || checkKey("host name", host) != nil || len(host) > 200 {
		host = "unknown"
	}
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails, see its documentation
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(suffix[:]))
}

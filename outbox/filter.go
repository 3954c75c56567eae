package outbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

// Filter chooses messages. All of its conditions must hold; a zero field is no
// condition. Text is compared literally and with its case.
type Filter struct {
	// IDs are those of the messages. Nil is no condition; an empty list matches
	// nothing.
	IDs []ID

	Topic         string
	TopicPrefix   string
	OrderKey      string
	Status        []Status
	ErrorContains string        // a part of LastError
	OlderThan     time.Duration // created longer ago than this, on the database's clock

	// All allows Retry and Discard without any other condition.
	All bool

	// Limit is how many messages at most. Default 100 for List, no limit for
	// Retry and Discard.
	Limit int

	// Before lists messages with smaller ids: pass the last ID of one page to
	// get the next.
	Before ID
}

// isEmpty reports whether no condition narrows the filter. A status alone does
// not.
func (f Filter) isEmpty() bool {
	return f.IDs == nil && f.Topic == "" && f.TopicPrefix == "" && f.OrderKey == "" &&
		f.ErrorContains == "" && f.OlderThan == 0
}

var errEmptyFilter = errors.New("outbox: the filter is empty, since a status alone does not narrow it; narrow it, or set All")

// check refuses what cannot be meant.
func (f Filter) check() error {
	var errs []error
	if f.Limit < 0 {
		errs = append(errs, fmt.Errorf("outbox: Filter.Limit is %d; use 0 or more", f.Limit))
	}
	if f.OlderThan < 0 {
		errs = append(errs, fmt.Errorf("outbox: Filter.OlderThan is %v; use 0 or more", f.OlderThan))
	}
	for _, status := range f.Status {
		if !slices.Contains(statuses, status) {
			errs = append(errs, fmt.Errorf("outbox: Filter.Status has %q, which no message has; use %v", status, statuses))
		}
	}
	for _, text := range []struct{ name, value string }{
		{"Topic", f.Topic}, {"TopicPrefix", f.TopicPrefix}, {"OrderKey", f.OrderKey}, {"ErrorContains", f.ErrorContains},
	} {
		errs = append(errs, checkText("Filter."+text.name, text.value))
	}
	return errors.Join(errs...)
}

// where is the condition on the row m, with its arguments.
func (f Filter) where(d sqlDialect) (string, []any) {
	conditions := []string{"true"}
	var args []any
	add := func(condition string, arg ...any) {
		conditions = append(conditions, condition)
		args = append(args, arg...)
	}
	if f.IDs != nil && len(f.IDs) == 0 {
		add("1 = 0")
	}
	if len(f.IDs) > 0 {
		ids := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = id.String()
		}
		add("m.id IN (?)", bun.List(ids))
	}
	if f.Topic != "" {
		add("m.topic = ?", f.Topic)
	}
	if f.TopicPrefix != "" {
		add("substr(m.topic, 1, length(?)) = ?", f.TopicPrefix, f.TopicPrefix)
	}
	if f.OrderKey != "" {
		add("m.order_key = ?", f.OrderKey)
	}
	if len(f.Status) > 0 {
		add("m.status IN (?)", bun.List(f.Status))
	}
	if f.ErrorContains != "" {
		position := "instr(m.last_error, ?) > 0"
		if d.postgres {
			position = "strpos(m.last_error, ?) > 0"
		}
		add(position, f.ErrorContains)
	}
	if f.OlderThan > 0 {
		add("m.created_at < "+d.nowPlus("?"), -f.OlderThan.Microseconds())
	}
	if !f.Before.IsZero() {
		add("m.id < "+d.uuid("?"), f.Before.String())
	}
	return strings.Join(conditions, " AND "), args
}

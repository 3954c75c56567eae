package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// sqlDialect holds the fragments in which Postgres and SQLite differ. All
// arithmetic on times happens in the database; Go only ever passes intervals.
type sqlDialect struct {
	postgres bool
}

// now is the time at which the statement began. Not now(): on Postgres that is
// when the transaction began, and a row that is delayed by less than the
// transaction's age would be due at once.
func (d sqlDialect) now() string {
	if d.postgres {
		return "statement_timestamp()"
	}
	return "strftime('%Y-%m-%d %H:%M:%f', 'now')"
}

// nowPlus is now and the interval that is the value of a SQL expression in
// microseconds. SQLite keeps milliseconds, rounded up.
func (d sqlDialect) nowPlus(micros string) string {
	if d.postgres {
		return "statement_timestamp() + (" + micros + ") * interval '1 microsecond'"
	}
	return "strftime('%Y-%m-%d %H:%M:%f', 'now', ((((" + micros + ") + 999) / 1000) / 1000.0) || ' seconds')"
}

// micros reads a time column as microseconds of the Unix epoch on Postgres, so
// that the session's TimeZone and DateStyle do not matter, and as text on
// SQLite; dbTime scans both.
func (d sqlDialect) micros(column string) string {
	if d.postgres {
		return "CASE WHEN " + column + " > '-infinity' AND " + column + " < '200000-01-01' THEN (extract(epoch FROM " + column + ") * 1000000)::bigint END"
	}
	return column
}

// timestamp is the inverse of micros for a time that was read by it.
func (d sqlDialect) timestamp(expr string) string {
	if d.postgres {
		return "timestamptz 'epoch' + " + expr + " * interval '1 microsecond'"
	}
	return expr
}

// uuid casts text to the type of an id.
func (d sqlDialect) uuid(expr string) string {
	if d.postgres {
		return expr + "::uuid"
	}
	return expr
}

// recordSet is a FROM item that reads a JSON array of objects, which is one
// argument "?", as the relation alias with the given columns. A single string
// carries hostile text safely, and any number of rows.
func (d sqlDialect) recordSet(alias string, columns ...recordColumn) string {
	var b strings.Builder
	if d.postgres {
		b.WriteString("json_to_recordset(?) AS " + alias + "(")
		for i, c := range columns {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(c.name + " " + c.pgType)
		}
		return b.String() + ")"
	}
	b.WriteString("(SELECT ")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "json_extract(value, '$.%s') AS %s", c.name, c.name)
	}
	return b.String() + " FROM json_each(?)) AS " + alias
}

type recordColumn struct{ name, pgType string }

// record encodes rows for recordSet.
func record[T any](rows []T) string {
	b, err := json.Marshal(rows)
	if err != nil {
		panic(fmt.Sprintf("outbox: records are plain structs: %v", err))
	}
	return string(b)
}

// sqliteTime is the layout of a stored time on SQLite.
const sqliteTime = "2006-01-02 15:04:05.000"

// instant is an absolute time as an argument for a time column, never earlier
// than t, but for the end of the year 9999: one more digit would sort wrongly.
func (d sqlDialect) instant(t time.Time) string {
	step, layout := time.Millisecond, sqliteTime
	if d.postgres {
		step, layout = time.Microsecond, "2006-01-02 15:04:05.999999+00"
	}
	t = t.UTC()
	if up := t.Add(step - time.Nanosecond); up.Year() <= 9999 {
		t = up
	}
	return t.Format(layout)
}

// dbTime scans what micros reads; NULL is the zero time, and so is what another
// hand has written and is no time. It keeps the raw value so that a time can be
// written back exactly.
type dbTime struct {
	time.Time
	raw any
}

// Scan implements sql.Scanner.
func (t *dbTime) Scan(src any) error {
	*t = dbTime{raw: src}
	switch v := src.(type) {
	case nil:
		return nil
	case int64:
		t.Time = time.UnixMicro(v).UTC()
		return nil
	case []byte:
		t.parse(string(v))
		return nil
	case string:
		t.parse(v)
		return nil
	}
	return fmt.Errorf("outbox: cannot read a time from %T", src)
}

func (t *dbTime) parse(text string) {
	t.raw = text
	if parsed, err := time.Parse(sqliteTime, text); err == nil {
		t.Time = parsed
	}
}

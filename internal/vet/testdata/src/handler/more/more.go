// Package more is between a program and the events, and imports no outbox.
package more

import "handler/events"

var Publish = events.Publish

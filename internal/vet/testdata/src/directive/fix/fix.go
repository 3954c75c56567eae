package fix

// outbox:event fix.space // want `"// outbox:event fix.space // want .*" is not a directive; write //outbox:event, or reword it if it is prose`
type Space struct{}

// Inner is an event.
//
//outbox: event fix.inner // want `is not a directive; write //outbox:event`
type Inner struct{}

// Case is an event.
//
//Outbox:Event fix.case // want `is not a directive; write //outbox:event`
type Case struct{}

/// outbox:retired fix.slashes reason // want `is not a directive; write //outbox:retired`

// Spelling may be an event, and what it is meant to be is for its author to say.
//
//outbux:event fix.spelling // want `is not a directive; write //outbox:event`
type Spelling struct{}

/* outbox:event fix.block */ // want `is not a directive; write //outbox:event`
type Block struct{}

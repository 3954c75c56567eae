package outbox

// Backoff is for the property tests of the external test package.
var Backoff = backoff

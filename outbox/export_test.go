package outbox

// For the tests of the external test package.
var (
	Backoff        = backoff
	UnknownOutcome = unknownOutcome
	ProbeWait      = probeWait
)

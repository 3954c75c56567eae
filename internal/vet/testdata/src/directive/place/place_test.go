package place

// want +2 `//outbox:event stands in a test file; move it to a file that is in every build`

//outbox:event place.tested
type Tested struct{}

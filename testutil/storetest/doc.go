// Package storetest checks whether a database, or the driver and the settings
// with which it is opened, can serve as an outbox, in the manner of
// testing/slogtest:
//
//	func TestOutboxOnOurDriver(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) *bun.DB { return openEmptyDatabase(t) })
//	}
//
// Each subtest is one guarantee of docs/guarantees.md, as far as it rests on the
// database, and each failure names the guarantee and what to look at. What the
// outbox does by itself is not tested again.
package storetest

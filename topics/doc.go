// Package topics holds the typed names of events.
//
// A [Topic] ties a stored name, such as "orders.created", to one Go type, so
// that a wrong payload does not compile. It knows how a payload is encoded,
// which keys are derived from it, and how rows of older versions and former
// names still reach the type of today:
//
//	var OrderCreatedTopic = topics.New("orders.created", &topics.Options[OrderCreated]{
//		Version: 2,
//		Key:     func(e OrderCreated) string { return topics.JoinKey("orders.created", e.OrderID) },
//		Upcast:  map[int]topics.Upcaster{1: topics.Upcast(orderCreatedFromV1)},
//	})
//
// Topics are usually written by outboxgen from annotated structs. The package
// uses the standard library only.
package topics

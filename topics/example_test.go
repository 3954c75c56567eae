package topics_test

import (
	"fmt"
	"strings"

	"github.com/typedoutbox/typedoutbox/topics"
)

type OrderCreated struct {
	OrderID   string `json:"order_id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
}

func ExampleTopic() {
	topic := topics.New("orders.created", &topics.Options[OrderCreated]{
		Key: func(e OrderCreated) string { return topics.JoinKey("orders.created", e.OrderID) },
	})
	v := OrderCreated{OrderID: "7", FirstName: "Ada", LastName: "Lovelace"}
	payload, err := topic.Encode(v)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(topic.Name(), topic.Version(), topic.Key(v))
	fmt.Println(string(payload))
	// Output:
	// orders.created 1 orders.created#7
	// {"order_id":"7","first_name":"Ada","last_name":"Lovelace"}
}

// Rows that were stored before a field was split still reach today's type.
func ExampleUpcast() {
	type orderCreatedV1 struct {
		OrderID string `json:"order_id"`
		Name    string `json:"name"`
	}
	topic := topics.New("orders.created", &topics.Options[OrderCreated]{
		Version: 2,
		Upcast: map[int]topics.Upcaster{
			1: topics.Upcast(func(old orderCreatedV1) (OrderCreated, error) {
				first, last, _ := strings.Cut(old.Name, " ")
				return OrderCreated{OrderID: old.OrderID, FirstName: first, LastName: last}, nil
			}),
		},
	})
	v, err := topic.Decode(1, []byte(`{"order_id":"7","name":"Ada Lovelace"}`))
	fmt.Printf("%+v %v\n", v, err)
	// Output:
	// {OrderID:7 FirstName:Ada LastName:Lovelace} <nil>
}

func ExampleJoinKey() {
	fmt.Println(topics.JoinKey("orders.created", "7"))
	fmt.Println(topics.JoinKey("orders.created", "7", "a,b"))
	fmt.Printf("%q\n", topics.JoinKey("orders.created", ""))
	// Output:
	// orders.created#7
	// orders.created#7,a\,b
	// ""
}

// Package picking makes the warehouse pick what the shop has sold. It is the
// other end of the outbox: [NewRelay] wires its handler.
package picking

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// MessageIDHeader carries the id of the message. It is the same in every attempt
// to deliver one, so that the warehouse can tell a repeat from a new order.
const MessageIDHeader = "Message-Id"

// Pick is the body of a request to the warehouse.
type Pick struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Number     int    `json:"number"`
	SKU        string `json:"sku"`
	Quantity   int    `json:"quantity"`
}

// Client calls the warehouse. It is safe for concurrent use.
type Client struct {
	URL       string       // of the endpoint that picks
	UserAgent string       // who is calling
	HTTP      *http.Client // default http.DefaultClient
}

// Pick asks the warehouse to pick, in the name of a message. The error says what
// the outbox should make of it: a request that the warehouse will never accept is
// permanent, a warehouse that cannot be reached is unavailable, and Retry-After is
// heeded.
func (c *Client) Pick(ctx context.Context, messageID outbox.ID, p Pick) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", c.UserAgent)
	req.Header.Set(MessageIDHeader, messageID.String())
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial": // nobody is there: no other order would get through either
		return outbox.Unavailable(err)
	case err != nil:
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // also lets the connection be used again
	if err != nil {
		return err
	}
	return judge(res, strings.TrimSpace(string(text)))
}

// judge turns a response into the result of a delivery.
func judge(res *http.Response, text string) error {
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil
	}
	err := fmt.Errorf("the warehouse answered %s: %s", res.Status, text)
	if seconds, atoiErr := strconv.Atoi(res.Header.Get("Retry-After")); atoiErr == nil {
		return outbox.RetryAfter(time.Duration(seconds)*time.Second, err)
	}
	switch code := res.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		return err
	}
	return outbox.Permanent(err)
}

// Package schematest_test holds published schemas against what is stored. It is
// a module of its own, so that nobody else's go.sum knows the validator.
package schematest_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/schematest/events"
	"github.com/typedoutbox/typedoutbox/topics"
)

const everything = "shop~stest~ceverything.v1.schema.json"

func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.AssertContent()
	schema, err := c.Compile("events/schemas/" + name)
	require.NoError(t, err)
	return schema
}

func check(schema *jsonschema.Schema, payload []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func encode[T any](t *testing.T, topic topics.Topic[T], v T) []byte {
	t.Helper()
	payload, err := topic.Encode(v)
	require.NoError(t, err)
	return payload
}

func full() events.Everything {
	n := -7
	item := events.Item{SKU: "a", Count: 255}
	return events.Everything{
		Base: events.Base{ID: "1"}, Bool: true, Int8: math.MinInt8, Int: math.MinInt, Uint64: math.MaxUint64,
		Float32: 1.5, Float64: math.MaxFloat64, String: "é\x00<", Bytes: []byte{0, 255}, Time: time.Now(), Duration: -time.Hour,
		Number: "1e3", Any: map[string]any{"a": []int{1}}, Raw: json.RawMessage(`[null]`), Text: netip.MustParseAddr("::1"),
		Opaque: events.Opaque{X: 1, Y: 2}, Status: events.Paid, Object: item, Pointer: &item, List: []events.Item{item, {}},
		Array: [2]int{1, 2}, Map: map[string]*events.Item{"": &item, "null": nil}, ByID: map[int64]string{-3: "x"},
		Tree:       &events.Tree{Name: "root", Children: []events.Tree{{ByName: map[string]events.Tree{"x": {}}}}},
		QuotedBool: true, QuotedInt: &n, QuotedFloat: 1e100, QuotedText: `"`, OmitEmpty: &n, OmitZero: time.Now(),
	}
}

func TestPayloadsAreValid(t *testing.T) {
	t.Parallel()
	schema := compile(t, everything)
	zero := events.Everything{Raw: json.RawMessage("null")}
	for name, v := range map[string]events.Everything{"zero": zero, "full": full()} {
		require.NoError(t, check(schema, encode(t, events.EverythingTopic, v)), name)
	}
	require.NoError(t, check(compile(t, "grown.v2.schema.json"), encode(t, events.GrownTopic, events.Grown{Cents: 1})))
	require.NoError(t, check(compile(t, "grown.v1.schema.json"), []byte(`{"euros": 1.5}`)))
}

// Each payload differs from a valid one at the key, which the schema must tell.
func TestOthersAreNot(t *testing.T) {
	t.Parallel()
	schema, valid := compile(t, everything), encode(t, events.EverythingTopic, full())
	for key, wrong := range map[string]string{
		"id": `1`, "bool": `"true"`, "int8": `128`, "int": `9223372036854775808`, "uint64": `-1`, "float32": `"1"`, "float64": `null`,
		"string": `null`, "bytes": `[1]`, "time": `"yesterday"`, "duration": `"1h"`, "number": `"1"`, "text": `1`, "status": `0`,
		"object": `{"sku": "a"}`, "pointer": `[]`, "list": `[{"sku": 1, "count": 1}]`, "array": `[1]`, "map": `{"a": {"sku": "a", "count": 256}}`,
		"by_id": `{"a": "b"}`, "tree/~ %": `{"name": "a", "by name": null, "children": [{"name": 1, "children": null, "by name": null}]}`, "empty": `[]`,
		"quoted_bool": `true`, "quoted_int": `"a"`, "quoted_float": `1`, "quoted_text": `1`, "omit_empty": `"1"`, "omit_zero": `1`,
	} {
		var payload map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(valid, &payload))
		require.Contains(t, payload, key)
		payload[key] = json.RawMessage(wrong)
		text, err := json.Marshal(payload)
		require.NoError(t, err)
		require.Error(t, check(schema, text), "%s: %s", key, wrong)
		delete(payload, key)
		text, err = json.Marshal(payload)
		require.NoError(t, err)
		if key == "omit_empty" || key == "omit_zero" {
			require.NoError(t, check(schema, text), "without %s", key)
		} else {
			require.Error(t, check(schema, text), "without %s", key)
		}
	}
}

// A program in another language finds the schema of a stored row by its topic
// and version.
func TestAsyncAPILeadsToTheSchemas(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("events/schemas/asyncapi.json")
	require.NoError(t, err)
	var doc struct {
		AsyncAPI string
		Channels map[string]struct {
			Address  string
			Messages map[string]struct {
				Payload struct {
					SchemaFormat string
					Schema       map[string]string
				}
			}
		}
		Operations map[string]struct {
			Action  string
			Channel map[string]string
		}
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	require.Equal(t, "3.0.0", doc.AsyncAPI)
	require.Len(t, doc.Channels, len(events.OutboxTopics()))
	for _, info := range events.OutboxTopics() {
		channel := doc.Channels[info.Name]
		require.Equal(t, info.Name, channel.Address)
		require.Len(t, channel.Messages, info.Version)
		for _, message := range channel.Messages {
			require.Equal(t, "application/schema+json;version=draft-2020-12", message.Payload.SchemaFormat)
			compile(t, message.Payload.Schema["$ref"])
		}
		require.Equal(t, "send", doc.Operations[info.Name].Action)
	}
	require.Equal(t, "#/channels/shop~1test:everything", doc.Operations["shop/test:everything"].Channel["$ref"])
}

func TestSchemasAreUpToDate(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "tool", "outboxgen", "-diff", "-schema", "schemas")
	cmd.Dir = "events"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "run go generate ./... in this module:\n%s", out)
}

module github.com/typedoutbox/typedoutbox/internal/schematest

go 1.26.0

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/stretchr/testify v1.12.1
	github.com/typedoutbox/typedoutbox v0.0.0
)

require (
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)

replace github.com/typedoutbox/typedoutbox => ../..

tool github.com/typedoutbox/typedoutbox/cmd/outboxgen

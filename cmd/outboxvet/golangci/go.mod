module github.com/typedoutbox/typedoutbox/cmd/outboxvet/golangci

go 1.26.0

require (
	github.com/golangci/plugin-module-register v0.1.2
	github.com/stretchr/testify v1.12.1
	github.com/typedoutbox/typedoutbox v0.0.0
	golang.org/x/tools v0.52.0
)

require (
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/typedoutbox/typedoutbox => ../../..

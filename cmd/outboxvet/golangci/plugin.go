// Package golangci makes the analyzers of outboxvet a plugin of golangci-lint,
// of the kind that is called a module plugin. It is a module of its own, so that
// nobody else depends on what it needs.
//
// Name it in .custom-gcl.yml, from which "golangci-lint custom" builds a binary,
//
//	version: v2.8.0
//	plugins:
//	  - module: github.com/typedoutbox/typedoutbox/cmd/outboxvet/golangci
//	    version: v0.1.0
//
// and turn it on in .golangci.yml:
//
//	linters:
//	  enable: [outboxvet]
//	  settings:
//	    custom:
//	      outboxvet:
//	        type: module
//	        settings:
//	          effect: true
//	          handler: true
//
// Both settings are false if they are left out. They run outboxeffect and
// outboxhandler.
package golangci

import (
	"fmt"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet/outboxeffect"
	"github.com/typedoutbox/typedoutbox/internal/vet/outboxhandler"
	"github.com/typedoutbox/typedoutbox/internal/vet/suite"
)

// A plugin has no other way to be found than to register itself.
func init() { register.Plugin("outboxvet", newPlugin) }

// plugin is also its settings.
type plugin struct {
	Effect  bool `json:"effect"`
	Handler bool `json:"handler"`
}

func newPlugin(settings any) (register.LinterPlugin, error) {
	p, err := register.DecodeSettings[plugin](settings)
	if err != nil {
		return nil, fmt.Errorf("outboxvet: %w; the settings are effect and handler, which are true or false", err)
	}
	return p, nil
}

// BuildAnalyzers returns the analyzers that always run and those that were asked
// for.
func (p plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	list := suite.Default()
	if p.Effect {
		list = append(list, outboxeffect.Analyzer)
	}
	if p.Handler {
		list = append(list, outboxhandler.Analyzer)
	}
	return list, nil
}

// GetLoadMode says that the analyzers need types.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }

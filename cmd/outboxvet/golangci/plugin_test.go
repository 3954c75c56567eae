package golangci_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"

	_ "github.com/typedoutbox/typedoutbox/cmd/outboxvet/golangci"
)

func TestPlugin(t *testing.T) {
	t.Parallel()
	standard := []string{"outboxdirective", "outboxpayload", "outboxtx", "outboxescape"}
	for _, c := range []struct {
		settings any // as golangci-lint reads them from YAML
		want     []string
	}{
		{nil, standard},
		{map[string]any{}, standard},
		{map[string]any{"effect": true}, append(standard, "outboxeffect")},
		{map[string]any{"effect": false, "handler": true}, append(standard, "outboxhandler")},
		{map[string]any{"effect": true, "handler": true}, append(standard, "outboxeffect", "outboxhandler")},
	} {
		analyzers := build(t, c.settings)
		var names []string
		for _, a := range analyzers {
			names = append(names, a.Name)
		}
		require.Equal(t, c.want, names, "%v", c.settings)
		require.NoError(t, analysis.Validate(analyzers))
	}
}

func build(t *testing.T, settings any) []*analysis.Analyzer {
	t.Helper()
	create, err := register.GetPlugin("outboxvet")
	require.NoError(t, err)
	plugin, err := create(settings)
	require.NoError(t, err)
	require.Equal(t, register.LoadModeTypesInfo, plugin.GetLoadMode())
	analyzers, err := plugin.BuildAnalyzers()
	require.NoError(t, err)
	return analyzers
}

func TestUnknownSetting(t *testing.T) {
	t.Parallel()
	create, err := register.GetPlugin("outboxvet")
	require.NoError(t, err)
	for _, settings := range []any{map[string]any{"efect": true}, map[string]any{"effect": "yes"}} {
		_, err = create(settings)
		require.ErrorContains(t, err, "the settings are effect and handler")
	}
}

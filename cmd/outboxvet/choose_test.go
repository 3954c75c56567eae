package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	standard := []*analysis.Analyzer{{Name: "a"}, {Name: "b"}}
	optIn := []*analysis.Analyzer{{Name: "x"}, {Name: "y"}}
	for _, c := range []struct{ args, want string }{
		{"./...", "-a=true -b=true -x=false -y=false"},
		{"", "-a=true -b=true -x=false -y=false"},
		{"-x ./...", "-a=true -b=true -x=true -y=false"},
		{"--x=true -c 3 -y=1 unit.cfg", "-a=true -b=true -x=true -y=true"},
		{"-x=false ./...", "-a=true -b=true -x=false -y=false"},
		{"-b=false ./...", "-a=true -b=false -x=false -y=false"},
		{"-b=false -x ./...", "-a=true -b=false -x=true -y=false"},
		{"-a ./...", "-a=true -b=false -x=false -y=false"},
		{"-a -y ./...", "-a=true -b=false -x=false -y=true"},
		{"-a -json ./...", "-a=true -b=false -x=false -y=false"},
		{"a x", "-a=true -b=true -x=false -y=false"},
		{"help", ""},
		{"help x", ""},
	} {
		require.Equal(t, strings.Fields(c.want+" "+c.args), choose(strings.Fields(c.args), standard, optIn), c.args)
	}
}

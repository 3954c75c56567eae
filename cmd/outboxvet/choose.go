package main

import (
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// choose returns the command line with a flag for each analyzer in front, which
// says whether it runs.
//
// Where any analyzer is named, multichecker runs those alone. It must not be so
// for one that is opted into: who asks for more checks would lose the others.
// Nor can such an analyzer have a flag of its own, like -outboxeffect.enable,
// and look at it when it runs: outboxhandler has facts, for which every
// dependency is loaded from source, whether it then reports or not.
func choose(args []string, standard, optIn []*analysis.Analyzer) []string {
	if len(args) > 0 && args[0] == "help" {
		return args // of all analyzers
	}
	named := map[string]bool{}
	for _, arg := range args {
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		on, err := strconv.ParseBool(value)
		if strings.HasPrefix(arg, "-") && (err == nil || !hasValue) {
			named[name] = on || !hasValue
		}
	}
	alone := false
	for _, a := range standard {
		alone = alone || named[a.Name]
	}
	var flags []string
	set := func(list []*analysis.Analyzer, otherwise bool) {
		for _, a := range list {
			on, ok := named[a.Name]
			if !ok {
				on = otherwise
			}
			flags = append(flags, "-"+a.Name+"="+strconv.FormatBool(on))
		}
	}
	set(standard, !alone)
	set(optIn, false)
	return append(flags, args...)
}

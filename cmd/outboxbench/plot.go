package main

import (
	"errors"
	"os"
	"strings"
	"text/template"
)

// The measures of a plot, in pixels.
const (
	plotWidth  = 860
	labelWidth = 220
	valueWidth = 240
	barHeight  = 16
	barStep    = 22
	titleStep  = 44
	plotMargin = 20
)

// chart is a plot as the template wants it.
type chart struct {
	Width, Height int
	Panels        []panel
}

// panel is one contest, with a scale of its own.
type panel struct {
	Title string
	Y     int
	Bars  []bar
}

type bar struct {
	Label, Value    string
	X, Y, TextY     int
	Width, ValueX   int
	Height          int
	Colour, Labeled string
}

// chartTemplate escapes nothing: what goes in are names and numbers of ours.
var chartTemplate = template.Must(template.New("chart").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
{{range .Panels}}<text x="20" y="{{.Y}}" font-size="14" font-weight="bold" fill="#222222">{{.Title}}</text>
{{range .Bars}}<text x="{{.X}}" y="{{.TextY}}" dx="-8" text-anchor="end" fill="{{.Labeled}}">{{.Label}}</text>
<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}" fill="{{.Colour}}"/>
<text x="{{.ValueX}}" y="{{.TextY}}" fill="#444444">{{.Value}}</text>
{{end}}{{end}}</svg>
`))

// plot writes results as horizontal bars, a panel a contest.
func plot(file string, results []result) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return chartTemplate.Execute(f, newChart(results))
}

func newChart(results []result) chart {
	c := chart{Width: plotWidth}
	y := plotMargin
	for len(results) > 0 {
		n := 1
		for n < len(results) && results[n].Workload == results[0].Workload {
			n++
		}
		p := newPanel(results[:n], y)
		c.Panels = append(c.Panels, p)
		y += titleStep/2 + n*barStep + titleStep/2
		results = results[n:]
	}
	c.Height = y
	return c
}

// newPanel draws what the contest is compared by.
func newPanel(results []result, y int) panel {
	value, unit := plotted(results[0].Workload)
	p := panel{Title: results[0].Workload + ", " + unit, Y: y}
	most := 0.0
	for _, r := range results {
		most = max(most, value(r))
	}
	for i, r := range results {
		top := y + titleStep/2 - 8 + i*barStep
		width := 1
		if most > 0 {
			width = max(1, int(value(r)/most*(plotWidth-labelWidth-valueWidth)))
		}
		text := number(value(r))
		if r.Ratio > 0 {
			text += "  (" + ratio(r) + ")"
		}
		colour, label := "#9aa7b5", "#444444"
		if isOurs(r.Subject) {
			colour, label = "#2f6fb3", "#2f6fb3"
		}
		p.Bars = append(p.Bars, bar{
			Label: r.Subject, Value: text, X: labelWidth, Y: top, TextY: top + barHeight - 4,
			Width: width, ValueX: labelWidth + width + 6, Height: barHeight, Colour: colour, Labeled: label,
		})
	}
	return p
}

// plotted is what the panel of a contest shows.
func plotted(workload string) (value func(result) float64, unit string) {
	switch {
	case strings.HasPrefix(workload, "latency/"), strings.HasPrefix(workload, "growth/"):
		return func(r result) float64 { return r.P50 }, "p50 in ms, less is better"
	case strings.HasPrefix(workload, "memory/"):
		return func(r result) float64 { return r.RSS }, "MiB at most, less is better"
	case strings.HasPrefix(workload, "idle"):
		return func(r result) float64 { return r.PerSec }, "statements a second, less is better"
	}
	return func(r result) float64 { return r.PerSec }, "a second, more is better"
}

// isOurs reports whether a subject is this library.
func isOurs(subject string) bool { return strings.HasPrefix(subject, "outbox") }

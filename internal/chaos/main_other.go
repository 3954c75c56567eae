//go:build !linux

// Chaos needs Linux; see main.go.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "chaos: this needs Linux")
	os.Exit(2)
}

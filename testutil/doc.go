// Package testutil has what a test of code that enqueues needs.
package testutil

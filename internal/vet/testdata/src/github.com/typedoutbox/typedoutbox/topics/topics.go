// Package topics stands in for the real one.
package topics

type Topic[T any] struct{ _ [0]func(T) }

func (t Topic[T]) Info() Info   { return Info{} }
func (t Topic[T]) Name() string { return "" }

type Options[T any] struct{ Key func(T) string }

type Info struct{ Name string }

func New[T any](name string, opts *Options[T]) Topic[T] { return Topic[T]{} }

// Producer starts no relay, and needs no handler.
package main

import "handler/more"

func main() { _ = more.Publish }

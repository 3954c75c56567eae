// Withpostgres runs a command with a throwaway Postgres server, which flushes
// to disk as a real one does. In the arguments of the command, {} stands for the
// URL of the server's database:
//
//	go run ./.ci/withpostgres go run ./examples/orders -dsn {}
//
// Its exit code is that of the command.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: withpostgres command [argument or {}]...")
		return 2
	}
	server, err := pgcluster.Start("fsync=on", "full_page_writes=on")
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		return 1
	}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "{}", server.URL())
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = errors.Join(cmd.Run(), server.Close())
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		return 1
	}
	return 0
}

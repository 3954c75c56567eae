package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
)

// bench is one run.
type bench struct {
	sizes
	cluster *pgcluster.Cluster
	arena   *arena // of all contests that do not need one of their own
	closers []func() error
}

// workloads in the order in which they run.
func (b *bench) workloads() []contest {
	var all []contest
	for _, contests := range []func() []contest{
		b.enqueueWorkload,
		b.enqueueAllWorkload,
		b.drainWorkload,
		b.latencyWorkload,
		b.relaysWorkload,
		b.heldWorkload,
		b.growthWorkload,
		b.idleWorkload,
		b.memoryWorkload,
		b.sqliteWorkload,
	} {
		all = append(all, contests()...)
	}
	return all
}

// measure runs the contests that were asked for and tells their results. It
// returns how many contenders failed.
func measure(ctx context.Context, s settings) (failed int, err error) {
	b := &bench{sizes: s.sizes, arena: &arena{}}
	defer func() { err = errors.Join(err, b.close()) }()
	contests := b.chosen(s)
	if s.list {
		for _, c := range contests {
			fmt.Println(c.name)
		}
		return 0, nil
	}
	if len(contests) == 0 {
		return 0, fmt.Errorf("no contest matches -only %q; see -list", s.only)
	}
	if err := b.open(ctx); err != nil {
		return 0, err
	}
	if err := b.describe(ctx); err != nil {
		return 0, err
	}
	var all []result
	tell := newTeller(os.Stdout, s.json)
	for i, c := range contests {
		begun := time.Now()
		results, n := c.hold(ctx, s.rounds, func(problem string) { fmt.Fprintln(os.Stderr, "FAILED", problem) })
		failed += n
		fmt.Fprintf(os.Stderr, "%d/%d %s took %.1f s\n", i+1, len(contests), c.name, time.Since(begun).Seconds())
		if err := errors.Join(ctx.Err(), tell(c, results)); err != nil {
			return failed, err
		}
		all = append(all, results...)
	}
	if s.plot != "" {
		return failed, plot(s.plot, all)
	}
	return failed, nil
}

func (b *bench) chosen(s settings) []contest {
	var chosen []contest
	for _, c := range b.workloads() {
		if s.only == nil || s.only.MatchString(c.name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// open starts the server and makes the shared arena. Contests refer to the
// arena before it is there.
func (b *bench) open(ctx context.Context) (err error) {
	if b.cluster, err = startCluster(); err != nil {
		return err
	}
	b.closers = append(b.closers, b.cluster.Close)
	a, err := newArena(ctx, b.cluster)
	if err != nil {
		return err
	}
	b.closers = append(b.closers, a.close)
	*b.arena = *a
	return nil
}

// describe tells what the figures depend on.
func (b *bench) describe(ctx context.Context) error {
	var version, fsync, commit, buffers string
	err := b.arena.admin.QueryRowContext(ctx, "SELECT current_setting('server_version'), current_setting('fsync'), "+
		"current_setting('synchronous_commit'), current_setting('shared_buffers')").Scan(&version, &fsync, &commit, &buffers)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Postgres %s, fsync %s, synchronous_commit %s, shared_buffers %s, %d processors, %s, %s/%s\n",
		version, fsync, commit, buffers, runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// close ends everything in the opposite order.
func (b *bench) close() error {
	var errs []error
	for i := len(b.closers) - 1; i >= 0; i-- {
		errs = append(errs, b.closers[i]())
	}
	return errors.Join(errs...)
}

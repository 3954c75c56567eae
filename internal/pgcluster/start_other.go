//go:build !unix

package pgcluster

func join() (*Cluster, error)                 { return nil, ErrUnavailable }
func startPrivate([]string) (*Cluster, error) { return nil, ErrUnavailable }

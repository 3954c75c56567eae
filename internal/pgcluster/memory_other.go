//go:build unix && !linux

package pgcluster

// memoryDir is a file system in memory that has room for a server, or "".
func memoryDir() string { return "" }

package lock

import (
	"math/big"
	"strconv"
	"strings"
)

// isInt reports whether a value is a whole number of so many bits. A duration
// is one of 64.
func (k Kind) isInt() bool { return k.bits() > 0 && !k.isFloat() }

func (k Kind) isFloat() bool { return k == "float32" || k == "float64" }

func (k Kind) isNumber() bool { return k == "number" || k.bits() > 0 }

func (k Kind) bits() int {
	if k == "duration" {
		return 64
	}
	for _, name := range []string{"int", "uint", "float"} {
		if digits, ok := strings.CutPrefix(string(k), name); ok {
			n, _ := strconv.Atoi(digits)
			return n
		}
	}
	return 0
}

func (k Kind) signed() bool { return !strings.HasPrefix(string(k), "uint") }

// limits are the least and the greatest value of a whole number.
func (k Kind) limits() (low, high *big.Int) {
	one := big.NewInt(1)
	if !k.signed() {
		return new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(one, uint(k.bits())), one)
	}
	high = new(big.Int).Lsh(one, uint(k.bits()-1))
	return new(big.Int).Neg(high), high.Sub(high, one)
}

// beyond is a whole number of one kind that is none of another, or "".
func beyond(from, to Kind) string {
	low, high := to.limits()
	fromLow, fromHigh := from.limits()
	switch {
	case fromHigh.Cmp(high) > 0:
		return high.Add(high, big.NewInt(1)).String()
	case fromLow.Cmp(low) < 0:
		return low.Sub(low, big.NewInt(1)).String()
	}
	return ""
}

// exact reports whether a kind of float holds each whole number of another
// kind.
func exact(from, to Kind) bool {
	bits := from.bits()
	if from.signed() {
		bits--
	}
	if to == "float32" {
		return bits <= 24
	}
	return bits <= 53
}

package gen

import (
	"go/token"
	"go/types"
	"maps"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// checkPayload reports what is lost of a payload between Marshal and
// Unmarshal: of an event, or of what an upcast takes, which are rows that an
// event of an older version wrote. Where two of them reach the same field, the
// first is named. The result says whether something is lost.
func (u *unit) checkPayload(t types.Type, pos token.Pos) (lossy bool) {
	root, told := u.spell(t), maps.Clone(u.told)
	for _, p := range payload.Check(u.pkg.Types, t) {
		lossy = true
		path := p.Path
		if !p.Pos.IsValid() {
			p.Pos = pos
		}
		p.Path = ""
		if told[p] {
			continue
		}
		u.told[p] = true
		switch {
		case path == "": // the text names the type
			u.payloads.addf(p.Pos, "%s", p.Text)
		case path[0] == '[':
			u.payloads.addf(p.Pos, "%s%s: %s", root, path, p.Text)
		default:
			u.payloads.addf(p.Pos, "%s.%s: %s", root, path, p.Text)
		}
	}
	return lossy
}

package directory

import "time"

// DataPlane are the settings of security of calls: of the organisation, and of workspaces where it lets them decide.
type DataPlane struct {
	// Only saved resources may be used; nil: as for organisations by default.
	BlockInline *bool `json:"block_inline_config,omitempty"`
}

// BlockInlineConfigSince is the date from which block_inline_config is on by default for new organisations.
var BlockInlineConfigSince = time.Date(2026, 6, 19, 0, 0, 0, 0, time.UTC)

// BlocksInline reports whether settings of the organisation, or of one of its workspaces, block what is inline. operator is what the
// operator's configuration says, nil for nothing: true always blocks, false is the default of settings that say nothing.
func (o *Organisation) BlocksInline(p DataPlane, operator *bool) bool {
	switch {
	case operator != nil && *operator:
		return true
	case p.BlockInline != nil:
		return *p.BlockInline
	case operator != nil:
		return false
	}
	return !o.CreatedAt.Before(BlockInlineConfigSince)
}

// DataPlaneOf returns the settings of the calls of a workspace.
func (d *Directory) DataPlaneOf(w *Workspace) DataPlane {
	o := d.Organisation()
	return effective(o.LetsDecide(DataPlaneSecurity), o.DataPlane, o.DataPlaneBegin, w.DataPlane)
}

// DecideDataPlane stores what a workspace decides, which the organisation lets it.
func (w *Workspace) DecideDataPlane(o *Organisation, p DataPlane) {
	w.DataPlane = &Decided[DataPlane]{o.DataPlaneBegin.Epoch, p}
}

package admin

import "github.com/caddy-gw/gateway/internal/directory"

// dataPlaneSettings are the settings of security of calls.
type dataPlaneSettings struct {
	BlockInlineConfig bool `json:"block_inline_config" doc:"Whether only saved resources may be used, and no provider, host or config that a caller names inline."`
}

type updateDataPlane struct {
	BlockInlineConfig *flag `json:"block_inline_config,omitempty"`
}

// showDataPlane shows what counts, after the operator's configuration.
func (c *call) showDataPlane(p directory.DataPlane) dataPlaneSettings {
	return dataPlaneSettings{c.api.Directory.Organisation().BlocksInline(p, c.api.BlockInline)}
}

func (in *updateDataPlane) apply(p directory.DataPlane) directory.DataPlane {
	if in.BlockInlineConfig != nil {
		p.BlockInline = (*bool)(in.BlockInlineConfig)
	}
	return p
}
